#pragma once

#include "dsl/ir/program.hpp"

namespace tessera::lower {

/// Pass: a wait for products moves past the statements after it that touch none of their registers and leave shared
/// memory as it is, so that these run while the tensor cores do.
void delay_product_waits(ir::Program& program);

}  // namespace tessera::lower
