// expect: a bounded cast takes f32, bf16 or f16
#include <tessera/dsl.hpp>

using namespace tessera;

auto wrong(const Value<i32, 2>& v) { return cast_bounded<e2m1>(v); }
