// expect: tensor cores multiply tf32, bf16, f16 or e4m3; cast the operands to one of them
#include <tessera/dsl.hpp>

using namespace tessera;

auto wrong(const Value<f32, 2>& a) { return mma(a, a, a); }
