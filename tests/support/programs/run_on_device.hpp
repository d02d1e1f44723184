#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "dsl/ir/program.hpp"
#include "runtime/device.hpp"

namespace tessera::test {

/// Compiles a lowered program for a device, launches it with these tensor contents and scalars (all of the program's,
/// in order; integers), and replaces the contents by what lies there afterwards. Throws what the launch throws, and
/// std::runtime_error if the kernel wrote outside of a tensor.
void run_on_device(const Device& device, const std::shared_ptr<const ir::Program>& lowered,
                   std::vector<std::vector<std::uint8_t>>& tensors, const std::vector<std::uint64_t>& scalars);

}  // namespace tessera::test
