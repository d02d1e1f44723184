// expect: the operands have different element types; cast one of them
#include <tessera/dsl.hpp>

using namespace tessera;

auto wrong(const Value<e2m1, 2>& a, const Value<f32, 2>& factor) {
    return map_magnitudes<e2m1>(a, [&](float m) { return factor * m; });
}
