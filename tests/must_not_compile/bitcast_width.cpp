// expect: bitcast keeps the width; these two types differ in it
#include <tessera/dsl.hpp>

using namespace tessera;

auto wrong(const Value<bf16, 1>& a) { return bitcast<u32>(a); }
