// expect: only a cast to e2m1 has bounds to gain from
#include <tessera/dsl.hpp>

using namespace tessera;

auto wrong(const Value<f32, 2>& v) { return cast_bounded<e4m3>(v); }
