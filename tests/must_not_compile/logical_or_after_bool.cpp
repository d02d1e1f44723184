// expect: || would need the value now; masks combine with |
#include <tessera/dsl.hpp>

using namespace tessera;

auto wrong(const Value<f32, 2>& a, bool known) { return known || a > 0.0f; }
