#pragma once

#include <string>

#include "runtime/device.hpp"
#include "tests/support/engram_cases.hpp"

namespace tessera::test {

// Each runs one case on the device through the public entry points, with given outputs (between guard bands) and with
// returned ones, which must have the same bits, and compares with the reference. "" if all is well, else what differs.

/// Forward with and without saved values, then backward from what it saved. Every stored value is judged from the
/// stored values before it; the output must have the bits of x + g · v, each step rounded.
std::string check_engram_gate(const Device& device, const EngramGateCase& c);
/// Every bit.
std::string check_engram_hash(const Device& device, const EngramHashCase& c);
std::string check_engram_reduce(const Device& device, const EngramReduceCase& c);
/// fused_weight: every bit. The case's rows do not matter.
std::string check_engram_weight(const Device& device, const EngramReduceCase& c);

}  // namespace tessera::test
