#pragma once

#include <cstdint>
#include <vector>

#include "tests/support/reference/quantize.hpp"

namespace tessera::reference {

/// y(t, h) = x(t, h) · w(h) / sqrt(mean over h of x(t, h)² + epsilon), all in double.
std::vector<double> rms_norm(const Matrix& x, const Matrix& weight, double epsilon);

}  // namespace tessera::reference
