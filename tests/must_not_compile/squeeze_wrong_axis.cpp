// expect: squeeze names an axis that the value does not have
#include <tessera/dsl.hpp>

using namespace tessera;

auto wrong(const Value<f32, 2>& a) { return a.squeeze(axis<2>); }
