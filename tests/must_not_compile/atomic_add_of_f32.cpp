// expect: atomic_add is for integers of 32 or 64 bits; a sum of floats would depend on the order in which blocks come
#include <tessera/dsl.hpp>

using namespace tessera;

void wrong(const Piece<f32, 1>& to, const Value<f32, 1>& v) { atomic_add(to, v); }
