// expect: &, | and ^ are for masks and integers; see bitcast<u32>(v)
#include <tessera/dsl.hpp>

using namespace tessera;

auto wrong(const Value<f32, 2>& a) { return a & a; }
