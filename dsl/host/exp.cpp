#include "dsl/host/exp.hpp"

#include <cmath>
#include <limits>

namespace tessera::host {

float rounded_exp(float x) {
    // Outside of this range the result is 0 or infinity anyhow, and inside it an f64 holds every result.
    const double power = x > 100.0f ? 100.0 : x < -200.0f ? -200.0 : static_cast<double>(x);
    const double near = std::exp(power);
    const double error = near * 0x1p-50;  // far more than std::exp is off
    const auto low = static_cast<float>(near - error), high = static_cast<float>(near + error);
    if (low == high) return low;
    // Near the middle of two floats. No float's power comes so near that 64 bits cannot tell the side.
    static_assert(std::numeric_limits<long double>::digits >= 64, "the last step needs more than f64");
    return static_cast<float>(std::exp(static_cast<long double>(power)));
}

}  // namespace tessera::host
