// expect: the operands have different element types; cast one of them: cast<f32>(v)
#include <tessera/dsl.hpp>

using namespace tessera;

auto wrong(const Value<i32, 1>& a, const Value<i64, 1>& b) { return a < b; }
