// expect: unsqueeze names a position past the end
#include <tessera/dsl.hpp>

using namespace tessera;

auto wrong(const Value<f32, 2>& a) { return a.unsqueeze(axis<3>); }
