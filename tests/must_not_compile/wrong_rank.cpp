// expect: the operands have different ranks; use split, squeeze or unsqueeze, or a value of rank 0
#include <tessera/dsl.hpp>

using namespace tessera;

auto wrong(const Value<f32, 2>& a, const Value<f32, 1>& b) { return a + b; }
