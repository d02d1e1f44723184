// expect: tessera: selection is for f32, i32 and u32
#include <tessera/dsl.hpp>

using namespace tessera;

auto ids(const Value<bf16, 2>& v) { return top_k(v, axis<1>, 4); }
