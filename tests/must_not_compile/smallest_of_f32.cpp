// expect: tessera: smallest is for whole numbers of 32 or 64 bits
#include <tessera/dsl.hpp>

using namespace tessera;

auto least(const Value<f32, 2>& v) { return smallest(v, axis<1>, 4); }
