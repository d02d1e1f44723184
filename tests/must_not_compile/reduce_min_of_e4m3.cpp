// expect: this element type has no order; cast<f32>(v) first
#include <tessera/dsl.hpp>

using namespace tessera;

auto wrong(const Value<e4m3, 2>& a) { return reduce_min(a, axis<1>); }
