// expect: tf32 is moved but not converted; compute in f32
#include <tessera/dsl.hpp>

using namespace tessera;

auto wrong(const Value<f32, 1>& a) { return cast<tf32>(a); }
