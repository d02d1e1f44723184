// expect: || would need the value now; masks combine with |
#include <tessera/dsl.hpp>

using namespace tessera;

auto wrong(const Value<f32, 2>& a, const Value<f32, 2>& b) { return a > b || a < 1.0f; }
