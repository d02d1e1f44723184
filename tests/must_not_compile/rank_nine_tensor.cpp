// expect: a tensor has at most 8 axes
#include <tessera/dsl.hpp>

using namespace tessera;

void wrong(Kernel& k) { k.input<f32>("x", {1, 1, 1, 1, 1, 1, 1, 1, 1}); }
