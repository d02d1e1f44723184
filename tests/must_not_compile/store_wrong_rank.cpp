// expect: store's value has another rank than the piece; use split, merge, squeeze or unsqueeze
#include <tessera/dsl.hpp>

using namespace tessera;

void wrong(const Piece<f32, 2>& piece, const Value<f32, 1>& v) { store(piece, v); }
