// expect: signs are a mask of the codes' rank
#include <tessera/dsl.hpp>

using namespace tessera;

auto wrong(const Value<e2m1, 2>& a, const Value<boolean, 1>& signs) {
    return map_magnitudes<e2m1>(a, [](float m) { return m; }, signs);
}
