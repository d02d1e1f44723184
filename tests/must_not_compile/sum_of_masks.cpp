// expect: this element type has no arithmetic; cast<f32>(v) first
#include <tessera/dsl.hpp>

using namespace tessera;

auto wrong(const Value<boolean, 2>& a) { return reduce_sum(a, axis<1>); }
