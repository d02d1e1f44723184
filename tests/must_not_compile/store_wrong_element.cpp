// expect: store's value has another element type than the memory; cast it: store(piece, cast<bf16>(v))
#include <tessera/dsl.hpp>

using namespace tessera;

void wrong(const Piece<bf16, 2>& piece, const Value<f32, 2>& v) { store(piece, v); }
