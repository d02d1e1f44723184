// expect: codes are mapped to e2m1, e4m3 or u8
#include <tessera/dsl.hpp>

using namespace tessera;

auto wrong(const Value<e2m1, 2>& a) {
    return map_magnitudes<f32>(a, [](float m) { return m; });
}
