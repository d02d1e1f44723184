// expect: the selection names an axis that the value does not have
#include <tessera/dsl.hpp>

using namespace tessera;

auto wrong(const Value<u64, 2>& a) { return smallest(a, axis<2>, 1); }
