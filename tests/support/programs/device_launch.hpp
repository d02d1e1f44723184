#pragma once

#include <string>

#include "runtime/device.hpp"
#include "tests/support/programs/generator.hpp"

namespace tessera::test {

/// Compiles the case for the device, runs it there by the engine, and compares every tensor with the evaluator.
/// "" if all agree and the guard bands are whole.
std::string check_on_device(const Device& device, std::uint64_t seed);

}  // namespace tessera::test
