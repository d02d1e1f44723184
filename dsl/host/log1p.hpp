#pragma once

namespace tessera::host {

/// log(1 + x), correctly rounded; NaN below −1, −∞ at −1.
float rounded_log1p(float x);

}  // namespace tessera::host
