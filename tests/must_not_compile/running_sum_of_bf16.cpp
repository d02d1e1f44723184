// expect: running sums are for f32 and whole numbers of 32 or 64 bits
#include <tessera/dsl.hpp>

using namespace tessera;

auto wrong(const Value<bf16, 2>& a) { return inclusive_sum(a, axis<1>); }
