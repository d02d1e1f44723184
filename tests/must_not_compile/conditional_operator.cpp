// expect: a value is known only when the kernel runs and cannot steer C++; use select(mask, a, b)
#include <tessera/dsl.hpp>

using namespace tessera;

Value<f32, 1> wrong(const Value<f32, 1>& a, const Value<f32, 1>& b) { return a > b ? a : b; }
