#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "dsl/ir/program.hpp"
#include "runtime/device.hpp"

namespace tessera::test {

/// Compiles a lowered program for a device, launches it with these tensor contents and scalars (all of the program's,
/// in order; integers), and replaces the contents by what lies there afterwards. Gives what the program
/// reported. Throws what the launch throws else, and std::runtime_error if the kernel wrote outside of a tensor.
std::string run_on_device(const Device& device, const std::shared_ptr<const ir::Program>& lowered,
                          std::vector<std::vector<std::uint8_t>>& tensors, const std::vector<std::uint64_t>& scalars);

}  // namespace tessera::test
