// expect: block needs one extent and one tile coordinate for each axis
#include <tessera/dsl.hpp>

using namespace tessera;

auto wrong(const Global<f32, 2>& x, const Index& m) { return x.block({128}, {m}); }
