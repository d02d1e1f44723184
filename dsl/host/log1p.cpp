#include "dsl/host/log1p.hpp"

#include <cmath>
#include <limits>

namespace tessera::host {

float rounded_log1p(float x) {
    const double near = std::log1p(static_cast<double>(x));
    const double error = std::fabs(near) * 0x1p-50;  // far more than std::log1p is off
    const auto low = static_cast<float>(near - error), high = static_cast<float>(near + error);
    if (!(std::fabs(near) <= std::numeric_limits<double>::max())) return static_cast<float>(near);  // NaN, ±∞
    if (low == high) return std::copysign(low, x);
    // Near the middle of two floats; 64 bits tell the side.
    static_assert(std::numeric_limits<long double>::digits >= 64, "the last step needs more than f64");
    return static_cast<float>(std::log1p(static_cast<long double>(x)));
}

}  // namespace tessera::host
