// expect: compiles
#include <tessera/dsl.hpp>

using namespace tessera;

// What the other snippets do wrong, done right; if this one fails, their failures mean nothing.
Value<f32, 2> right(const Value<f32, 2>& a, const Value<bf16, 2>& b, const Value<f32, 0>& c) {
    const Value<f32, 2> sum = a + cast<f32>(b) * c;
    return select((sum > 1.0f & a < 2.0f) | ~(a == c), sum, a);
}
Value<u8, 2> joined(const Value<e2m1, 2>& codes) {
    unsigned n = 0;
    return reduce_or(map_magnitudes<u8>(codes, [&](float) { return 1u << n++; }), axis<1>);
}
Value<e4m3, 2> mapped(const Value<e2m1, 2>& codes, const Value<f32, 2>& factor) {
    return map_magnitudes<e4m3>(codes, [&](float m) { return cast<e4m3>(factor * m); }, factor > 0.0f);
}
