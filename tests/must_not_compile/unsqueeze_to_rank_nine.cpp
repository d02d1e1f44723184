// expect: a tile has at most 8 axes
#include <tessera/dsl.hpp>

using namespace tessera;

auto wrong(const Value<f32, 8>& a) { return a.unsqueeze(axis<0>); }
