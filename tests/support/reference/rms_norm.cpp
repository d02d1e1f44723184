#include "tests/support/reference/rms_norm.hpp"

#include <cmath>

namespace tessera::reference {

std::vector<double> rms_norm(const Matrix& x, const Matrix& weight, double epsilon) {
    std::vector<double> y(x.rows * x.columns);
    for (std::int64_t t = 0; t < x.rows; ++t) {
        double squares = 0;
        for (std::int64_t h = 0; h < x.columns; ++h) squares += static_cast<double>(x.at(t, h)) * x.at(t, h);
        const double norm = std::sqrt(squares / static_cast<double>(x.columns) + epsilon);
        for (std::int64_t h = 0; h < x.columns; ++h)
            y[t * x.columns + h] = static_cast<double>(x.at(t, h)) * weight.at(0, h) / norm;
    }
    return y;
}

}  // namespace tessera::reference
