// expect: the selection names an axis that the value does not have
#include <tessera/dsl.hpp>

using namespace tessera;

auto wrong(const Value<f32, 2>& a) { return top_k(a, axis<2>, 1); }
