#pragma once

namespace tessera::host {

/// e to the power of x, correctly rounded; NaN stays NaN.
float rounded_exp(float x);

}  // namespace tessera::host
