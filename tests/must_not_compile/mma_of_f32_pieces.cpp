// expect: tensor cores multiply tf32, bf16, f16 or e4m3; load the pieces and cast them to one of them
#include <tessera/dsl.hpp>

using namespace tessera;

auto wrong(const Piece<f32, 2>& a, const Value<f32, 2>& c) { return mma(a, a, c); }
