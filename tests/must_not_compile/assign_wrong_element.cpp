// expect: the operands have different element types; cast one of them: cast<f32>(v)
#include <tessera/dsl.hpp>

using namespace tessera;

void wrong(Variable<f32, 1>& state, const Value<bf16, 1>& v) { state = v; }
