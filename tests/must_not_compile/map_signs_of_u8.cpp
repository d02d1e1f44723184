// expect: u8 takes no sign
#include <tessera/dsl.hpp>

using namespace tessera;

auto wrong(const Value<e2m1, 2>& a, const Value<boolean, 2>& signs) {
    return map_magnitudes<u8>(a, [](float) { return 1; }, signs);
}
