// expect: tensor cores multiply tf32, bf16, f16 or e4m3; load the piece and cast it to one of them
#include <tessera/dsl.hpp>

using namespace tessera;

auto wrong(const Value<f32, 2>& a, const Piece<f32, 2>& b) { return mma(a, b, a); }
