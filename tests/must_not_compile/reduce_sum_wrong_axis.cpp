// expect: the reduction names an axis that the value does not have
#include <tessera/dsl.hpp>

using namespace tessera;

auto wrong(const Value<f32, 2>& a) { return reduce_sum(a, axis<2>); }
