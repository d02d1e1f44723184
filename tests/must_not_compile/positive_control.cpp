// expect: compiles
#include <tessera/dsl.hpp>

using namespace tessera;

// What the other snippets do wrong, done right; if this one fails, their failures mean nothing.
Value<f32, 2> right(const Value<f32, 2>& a, const Value<bf16, 2>& b, const Value<f32, 0>& c) {
    const Value<f32, 2> sum = a + cast<f32>(b) * c;
    return select((sum > 1.0f & a < 2.0f) | ~(a == c), sum, a);
}
