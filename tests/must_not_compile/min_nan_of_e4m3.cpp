// expect: NaN is kept by f32, bf16 and f16; cast<f32>(v) first
#include <tessera/dsl.hpp>

using namespace tessera;

auto wrong(const Value<e4m3, 1>& a) { return min_nan(a, a); }
