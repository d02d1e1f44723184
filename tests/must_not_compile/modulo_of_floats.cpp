// expect: %, << and >> are for integers
#include <tessera/dsl.hpp>

using namespace tessera;

auto wrong(const Value<f32, 2>& a) { return a % 2.0f; }
