// expect: only whole numbers have bits to join
#include <tessera/dsl.hpp>

using namespace tessera;

auto wrong(const Value<f32, 2>& a) { return reduce_or(a, axis<1>); }
