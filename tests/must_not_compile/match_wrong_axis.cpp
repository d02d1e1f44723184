// expect: the match names an axis that the value does not have
#include <tessera/dsl.hpp>

using namespace tessera;

auto wrong(const Value<i32, 2>& a) { return match(a, axis<2>); }
