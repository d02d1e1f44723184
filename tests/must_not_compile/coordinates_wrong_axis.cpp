// expect: coordinates names an axis that the tile does not have
#include <tessera/dsl.hpp>

using namespace tessera;

auto wrong() { return coordinates({4, 8}, axis<2>); }
