#include "dsl/front/program.hpp"

#include "dsl/ir/program.hpp"

namespace tessera {

Program::~Program() { delete program_; }

}  // namespace tessera
