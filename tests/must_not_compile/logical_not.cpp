// expect: ! would need the value now; masks are inverted with ~
#include <tessera/dsl.hpp>

using namespace tessera;

auto wrong(const Value<f32, 2>& a, const Value<f32, 2>& b) { return !(a < b); }
