// expect: window needs one extent and one offset for each axis
#include <tessera/dsl.hpp>

using namespace tessera;

auto wrong(const Global<f32, 2>& x) { return x.window({8, 8}, {0}); }
