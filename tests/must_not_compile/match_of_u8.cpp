// expect: match is for whole numbers of 32 or 64 bits
#include <tessera/dsl.hpp>

using namespace tessera;

auto wrong(const Value<u8, 2>& a) { return match(a, axis<1>); }
