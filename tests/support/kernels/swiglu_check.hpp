#pragma once

#include <string>

#include "runtime/device.hpp"
#include "tests/support/swiglu_cases.hpp"

namespace tessera::test {

// Each runs one case on the device through the public entry points, with given outputs (filled with a sentinel, between
// guard bands) and with returned ones, and compares with the reference: every byte on the host executor; elsewhere e^x
// may be an ulp off, so codes may be neighbours now and then and scales nearly equal. "" if all is well, else what
// differs.

std::string check_swiglu_forward(const Device& device, const SwigluForwardCase& c);
std::string check_swiglu_backward(const Device& device, const SwigluBackwardCase& c);

}  // namespace tessera::test
