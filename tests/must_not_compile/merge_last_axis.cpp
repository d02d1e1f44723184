// expect: merge needs axis N and axis N + 1
#include <tessera/dsl.hpp>

using namespace tessera;

auto wrong(const Value<f32, 2>& a) { return a.merge(axis<1>); }
