// expect: the operands have different element types; cast one of them: cast<f32>(v)
#include <tessera/dsl.hpp>

using namespace tessera;

auto wrong(const Value<f32, 2>& a, const Value<bf16, 0>& b) { return a * b; }
