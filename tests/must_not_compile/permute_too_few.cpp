// expect: permute names every axis once
#include <tessera/dsl.hpp>

using namespace tessera;

auto wrong(const Value<f32, 3>& a) { return a.permute<1, 0>(); }
