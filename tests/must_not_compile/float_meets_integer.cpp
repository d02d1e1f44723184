// expect: a floating-point number meets an integer value; write an integer
#include <tessera/dsl.hpp>

using namespace tessera;

auto wrong(const Value<i32, 1>& a) { return a + 0.5; }
