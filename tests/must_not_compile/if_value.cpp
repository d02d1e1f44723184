// expect: a value is known only when the kernel runs and cannot steer C++; use select(mask, a, b)
#include <tessera/dsl.hpp>

using namespace tessera;

Value<f32, 2> wrong(const Value<f32, 2>& a, const Value<f32, 2>& b) {
    if (a < b) return a;
    return b;
}
