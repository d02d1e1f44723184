// expect: the reduction names an axis that the value does not have
#include <tessera/dsl.hpp>

using namespace tessera;

auto wrong(const Value<u8, 2>& a) { return reduce_or(a, axis<2>); }
