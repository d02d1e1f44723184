// expect: a value is known only when the kernel runs and cannot steer C++
#include <tessera/dsl.hpp>

using namespace tessera;

void wrong(const Index& n) {
    Index left = n;
    while (left > 0) left = left - 1;
}
