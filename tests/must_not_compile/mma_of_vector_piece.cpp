// expect: a piece for a product is [rows, K] or [K / W, rows, W]
#include <tessera/dsl.hpp>

using namespace tessera;

auto wrong(const Value<bf16, 2>& a, const Piece<bf16, 1>& b, const Value<f32, 2>& c) { return mma(a, b, c); }
