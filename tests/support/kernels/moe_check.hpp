#pragma once

#include <string>

#include "runtime/device.hpp"
#include "tests/support/moe_shapes.hpp"

namespace tessera::test {

// As in checks.hpp: "" if all is well, else what differs.

std::string check_expand_to_fused(const Device& device, const ExpandCase& c);
std::string check_reduce_fused(const Device& device, const ReduceCase& c);

}  // namespace tessera::test
