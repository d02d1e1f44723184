#include "reference/engram.hpp"

#include <algorithm>
#include <cmath>

namespace tessera::reference {

namespace {

constexpr double unit = 0x1p-21;

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

Judged judged(std::int64_t count) { return {std::vector<double>(at(count)), std::vector<double>(at(count))}; }
void set(Judged& j, std::int64_t i, double exact, double size) {
    j.exact[at(i)] = exact;
    j.limit[at(i)] = unit * size;
}

/// Sums over a row, and that of the magnitudes of the dot product's terms.
struct Sums {
    double xx = 0, kk = 0, dot = 0, dot_size = 0;
    Sums(const EngramGate& in, std::int64_t row, std::int64_t head) {
        for (std::int64_t d = 0; d < in.hidden; ++d) {
            const double x = in.x[at(row * in.hidden + d)], k = in.k[at(row * in.hidden + d)];
            const double term = x * in.w[at(head * in.hidden + d)] * k;
            xx += x * x, kk += k * k, dot += term, dot_size += std::fabs(term);
        }
    }
};

/// dL/d dot at fixed rstd, from G and the stored values; 0 where the clamp is flat.
struct Slope {
    bool flat, undecided;
    double factor;  // D / G
    Slope(double dot, double gate, double rx, double rk, double root, float clamp) {
        const double s = std::fabs(dot) * root * rx * rk;
        undecided = std::fabs(s - clamp) <= 0x1p-20 * clamp && s != clamp;
        flat = s < clamp;
        factor = flat ? 0 : gate * (1 - gate) * 0.5 * std::sqrt(root * rx * rk / std::fabs(dot));
    }
};

}  // namespace

double half_bf16_ulp(double x) {
    int exponent = 0;
    std::frexp(x, &exponent);
    return x == 0 ? 0x1p-134 : std::ldexp(1.0, std::max(exponent, -125) - 9);
}

bool Judged::admits(std::size_t i, double got, bool bf16, double times) const {
    if (std::isnan(exact[i]) || std::isnan(got)) return std::isnan(exact[i]) && std::isnan(got);
    const double half = bf16 ? half_bf16_ulp(std::max(std::fabs(exact[i]), std::fabs(got))) : 0;
    return std::fabs(got - exact[i]) <= times * (limit[i] + half);
}

double engram_gate_of(double dot, double rstd_x, double rstd_k, std::int64_t hidden, float clamp) {
    const double s = dot * rstd_x * rstd_k / std::sqrt(static_cast<double>(hidden));
    if (std::isnan(s)) return s;
    const double q = std::copysign(std::sqrt(std::max(std::fabs(s), double{clamp})), s);
    return 1 / (1 + std::exp(-q));
}

EngramForward engram_forward(const EngramGate& in) {
    const std::int64_t rows = in.tokens * in.heads;
    EngramForward out{judged(rows * in.hidden), judged(rows), judged(rows), judged(rows), judged(rows), {}};
    const double length = static_cast<double>(in.hidden), root = 1 / std::sqrt(length);
    for (std::int64_t row = 0; row < rows; ++row) {
        const Sums sums(in, row, row % in.heads);
        const double rx = 1 / std::sqrt(sums.xx / length + in.eps), rk = 1 / std::sqrt(sums.kk / length + in.eps);
        const double gate = engram_gate_of(sums.dot, rx, rk, in.hidden, in.clamp);
        const double s = std::fabs(sums.dot * rx * rk * root);
        const double least = std::max(s, double{in.clamp});
        const double gate_size =
            0.5 + gate * (1 - gate) * (sums.dot_size * rx * rk * root + 2 * s) / (2 * std::sqrt(least));
        set(out.dot, row, sums.dot, sums.dot_size);
        set(out.rstd_x, row, rx, rx);
        set(out.rstd_k, row, rk, rk);
        set(out.gate, row, gate, gate_size);
        out.undecided.push_back(std::fabs(sums.dot) < unit * sums.dot_size);
        for (std::int64_t d = 0; d < in.hidden; ++d) {
            const double x = in.x[at(row * in.hidden + d)], v = in.v[at(row / in.heads * in.hidden + d)];
            set(out.output, row * in.hidden + d, x + gate * v,
                std::fabs(x) + std::fabs(gate * v) + gate_size * std::fabs(v));
        }
    }
    return out;
}

EngramGradients engram_backward(const EngramGate& in, const std::vector<double>& grad_out, const EngramSaved& saved) {
    const std::int64_t rows = in.tokens * in.heads, h = in.hidden;
    EngramGradients out{judged(rows * h), judged(rows * h), judged(in.tokens * h), judged(in.heads * h), {}};
    const double length = static_cast<double>(h), root = 1 / std::sqrt(length);
    for (std::int64_t row = 0; row < rows; ++row) {
        const std::int64_t head = row % in.heads, token = row / in.heads;
        const double dot = saved.dot[at(row)], g = saved.gate[at(row)];
        const double rx = saved.rstd_x[at(row)], rk = saved.rstd_k[at(row)];
        double sum = 0, size = 0;
        for (std::int64_t d = 0; d < h; ++d) {
            const double term = grad_out[at(row * h + d)] * in.v[at(token * h + d)];
            sum += term, size += std::fabs(term);
        }
        const Slope slope(dot, g, rx, rk, root, in.clamp);
        out.undecided.push_back(slope.undecided);
        const double D = slope.factor * sum, D_size = slope.factor * size;
        const double px = dot * rx * rx / length, pk = dot * rk * rk / length;
        for (std::int64_t d = 0; d < h; ++d) {
            const std::int64_t i = row * h + d, column = head * h + d, channel = token * h + d;
            const double go = grad_out[at(i)], x = in.x[at(i)], k = in.k[at(i)], w = in.w[at(column)];
            set(out.x, i, go + D * (k * w - x * px), std::fabs(go) + D_size * (std::fabs(k * w) + std::fabs(x * px)));
            set(out.k, i, D * (x * w - k * pk), D_size * (std::fabs(x * w) + std::fabs(k * pk)));
            out.v.exact[at(channel)] += go * g;
            out.v.limit[at(channel)] += unit * std::fabs(go * g);
            out.w.exact[at(column)] += D * x * k;
            out.w.limit[at(column)] += unit * std::fabs(D_size * x * k);
        }
    }
    return out;
}

}  // namespace tessera::reference
