// expect: select's mask and values have different ranks
#include <tessera/dsl.hpp>

using namespace tessera;

auto wrong(const Value<boolean, 1>& m, const Value<f32, 2>& a) { return select(m, a, a); }
