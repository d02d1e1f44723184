#include <algorithm>
#include <cmath>
#include <fmt/format.h>

#include "reference/mhc.hpp"

namespace tessera::mhc_reference {

namespace {

constexpr double u = 0x1p-24;

double at(const Numbers& v, std::int64_t i) { return static_cast<double>(v[static_cast<std::size_t>(i)]); }
double at(const std::vector<double>& v, std::int64_t i) { return v[static_cast<std::size_t>(i)]; }
double at_or_zero(const Numbers& v, std::int64_t i) { return v.empty() ? 0.0 : at(v, i); }

double bf16_ulp(double x) {
    if (x == 0 || !std::isfinite(x)) return 0x1p-133;
    return std::ldexp(1.0, std::max(std::ilogb(x), -126) - 7);
}

/// A matrix (i, o) of one token.
using Matrix = std::vector<double>;

class Sinkhorn {
public:
    Sinkhorn(std::int64_t m, std::int64_t repeat, double eps) : m_(m), repeat_(repeat), eps_(eps) {}

    Matrix softmax(const std::vector<double>& x, std::int64_t first) const {
        Matrix p(static_cast<std::size_t>(m_ * m_));
        for (std::int64_t i = 0; i < m_; ++i) {
            double largest = -HUGE_VAL, sum = 0;
            for (std::int64_t o = 0; o < m_; ++o) largest = std::fmax(largest, at(x, first + i * m_ + o));
            for (std::int64_t o = 0; o < m_; ++o) sum += e(p, i, o) = std::exp(at(x, first + i * m_ + o) - largest);
            for (std::int64_t o = 0; o < m_; ++o) e(p, i, o) /= sum;
        }
        return p;
    }
    /// Sum of line `a` of v: a column at even steps, a row at odd ones.
    double line(std::int64_t step, const Matrix& v, std::int64_t a) const {
        double sum = 0;
        for (std::int64_t b = 0; b < m_; ++b) sum += step % 2 == 0 ? v[index(b, a)] : v[index(a, b)];
        return sum;
    }
    template <class F>
    void each(std::int64_t step, std::int64_t a, F&& f) const {
        for (std::int64_t b = 0; b < m_; ++b) f(step % 2 == 0 ? index(b, a) : index(a, b));
    }
    /// The matrices before each step, and the result at last.
    std::vector<Matrix> path(const Matrix& p) const {
        std::vector<Matrix> y{p};
        for (double& v : y[0]) v += eps_;
        for (std::int64_t step = 0; step < 2 * repeat_ - 1; ++step) {
            Matrix next = y.back();
            for (std::int64_t a = 0; a < m_; ++a) {
                const double sum = line(step, y.back(), a) + eps_;
                each(step, a, [&](std::size_t i) { next[i] /= sum; });
            }
            y.push_back(std::move(next));
        }
        return y;
    }
    Matrix gradient(const Matrix& p, Matrix g) const {
        const std::vector<Matrix> y = path(p);
        for (std::int64_t step = 2 * repeat_ - 2; step >= 0; --step) {
            const Matrix& before = y[static_cast<std::size_t>(step)];
            Matrix product = g;
            for (std::size_t i = 0; i < g.size(); ++i) product[i] *= before[i];
            for (std::int64_t a = 0; a < m_; ++a) {
                const double s = line(step, before, a) + eps_, dot = line(step, product, a);
                each(step, a, [&](std::size_t i) { g[i] = (g[i] - dot / s) / s; });
            }
        }
        Matrix product = g;
        for (std::size_t i = 0; i < g.size(); ++i) product[i] *= p[i];
        for (std::int64_t i = 0; i < m_; ++i) {
            const double dot = line(1, product, i);
            each(1, i, [&](std::size_t j) { g[j] = p[j] * (g[j] - dot); });
        }
        return g;
    }

private:
    std::size_t index(std::int64_t i, std::int64_t o) const { return static_cast<std::size_t>(i * m_ + o); }
    double& e(Matrix& v, std::int64_t i, std::int64_t o) const { return v[index(i, o)]; }

    std::int64_t m_, repeat_;
    double eps_;
};

double sigmoid(double z) { return 1 / (1 + std::exp(-z)); }

/// The affine value of one logit, its magnitude and its sigmoid.
struct Affine {
    double z, size, p;
    Affine(double logit, double scale, double base)
        : z(logit * scale + base), size(std::fabs(logit * scale) + std::fabs(base)), p(sigmoid(z)) {}
    /// Of an output p + eps or p · factor.
    double sigmoid_size() const { return p * (1 - p) * size; }
    double gradient_size(double g) const { return std::fabs(g) * p * (1 + (1 - p) * size); }
};

/// Gradients of scale and base from those of the affine values.
class ParameterSums {
public:
    ParameterSums(std::int64_t scales, std::int64_t bases) : result{Exact(), Exact(scales), Exact(bases)} {}
    void add(std::int64_t section, std::int64_t j, double a, double size, double logit) {
        grow(result.scale, section, a * logit, size * std::fabs(logit));
        grow(result.base, j, a, size);
    }
    void add_old(const Numbers& scale, const Numbers& base) {
        for (std::size_t i = 0; i < result.scale.value.size(); ++i) {
            const double v = at_or_zero(scale, static_cast<std::int64_t>(i));
            grow(result.scale, static_cast<std::int64_t>(i), v, std::fabs(v));
        }
        for (std::size_t i = 0; i < result.base.value.size(); ++i) {
            const double v = at_or_zero(base, static_cast<std::int64_t>(i));
            grow(result.base, static_cast<std::int64_t>(i), v, std::fabs(v));
        }
    }
    SplitGradients result;

private:
    static void grow(Exact& e, std::int64_t i, double v, double size) {
        e.value[static_cast<std::size_t>(i)] += v;
        e.limit[static_cast<std::size_t>(i)] += 0x1p-21 * size;
    }
};

}  // namespace

std::string difference(const char* name, const Numbers& got, const Exact& exact, bool bf16) {
    if (got.size() != exact.value.size())
        return fmt::format("{} has {} elements instead of {}", name, got.size(), exact.value.size());
    for (std::size_t i = 0; i < got.size(); ++i) {
        const double a = static_cast<double>(got[i]), b = exact.value[i];
        if (std::isnan(a) && std::isnan(b)) continue;
        const double half =
            bf16 ? bf16_ulp(std::fmax(std::fabs(a), std::fabs(b))) / 2 : 0x1p-120;  // below which FP32 underflows
        if (!(std::fabs(a - b) <= exact.limit[i] + half))
            return fmt::format("{}[{}] is {:.9g}, but must be within {:.3g} of {:.9g}", name, i, a,
                               exact.limit[i] + half, b);
    }
    return "";
}

Exact sinkhorn(const Extents& e, const Numbers& x, std::int64_t repeat, double eps, bool plain) {
    return sinkhorn(e, std::vector<double>(x.begin(), x.end()), repeat, eps, plain);
}

Exact sinkhorn(const Extents& e, const std::vector<double>& x, std::int64_t repeat, double eps, bool plain) {
    const Sinkhorn s(e.m, repeat, eps);
    const std::int64_t count = e.m * e.m;
    Exact result(e.n * count);
    for (std::int64_t t = 0; t < e.n; ++t) {
        const Matrix y = s.path(s.softmax(x, t * count)).back();
        for (std::int64_t i = 0; i < count; ++i) {
            const double v = y[static_cast<std::size_t>(i)];
            result.value[static_cast<std::size_t>(t * count + i)] = v;
            result.limit[static_cast<std::size_t>(t * count + i)] = plain ? std::fmin(8 * u, 32 * u * v) : 16 * u;
        }
    }
    return result;
}

Exact sinkhorn_gradient(const Extents& e, const Numbers& x, const Numbers& g, std::int64_t repeat, double eps) {
    const Sinkhorn s(e.m, repeat, eps);
    const std::int64_t count = e.m * e.m;
    Exact result(e.n * count);
    for (std::int64_t t = 0; t < e.n; ++t) {
        const Matrix in(g.begin() + t * count, g.begin() + (t + 1) * count);
        double largest = 0;
        for (const double v : in) largest = std::fmax(largest, std::fabs(v));
        const Matrix dx = s.gradient(s.softmax({x.begin() + t * count, x.begin() + (t + 1) * count}, 0), in);
        for (std::int64_t i = 0; i < count; ++i)
            result.set(t * count + i, dx[static_cast<std::size_t>(i)], 2 * largest);
    }
    return result;
}

Mixes split(const Extents& e, const Split& in) {
    const std::int64_t m = e.m, columns = m * (m + 2);
    Mixes out{Exact(e.n * m), Exact(e.n * m), Exact(e.n * m * m)};
    for (std::int64_t t = 0; t < e.n; ++t)
        for (std::int64_t j = 0; j < columns; ++j) {
            const std::int64_t section = std::min<std::int64_t>(2, j / m), q = j - section * m;
            const Affine a(at(in.logits, t * columns + j), at(in.scale, section), at(in.base, j));
            if (section == 0) out.pre.set(t * m + q, a.p + in.pre_eps, a.p + in.pre_eps + a.sigmoid_size());
            if (section == 1)
                out.post.set(t * m + q, a.p * in.post_mult, std::fabs(in.post_mult) * (a.p + a.sigmoid_size()));
            if (section == 2) out.comb.set(t * m * m + q, a.z, a.size);
        }
    return out;
}

SplitGradients split_gradients(const Extents& e, const Split& in, const Numbers& post, const Numbers& g_pre,
                               const Numbers& g_post, const Numbers& g_comb, const Numbers& old_scale,
                               const Numbers& old_base) {
    const std::int64_t m = e.m, columns = m * (m + 2);
    ParameterSums sums(3, columns);
    sums.result.logits = Exact(e.n * columns);
    for (std::int64_t t = 0; t < e.n; ++t)
        for (std::int64_t j = 0; j < columns; ++j) {
            const std::int64_t section = std::min<std::int64_t>(2, j / m), q = j - section * m;
            const double logit = at(in.logits, t * columns + j), scale = at(in.scale, section);
            const Affine z(logit, scale, at(in.base, j));
            double a = 0, size = 0;
            if (section == 0) {
                const double g = at(g_pre, t * m + q);
                a = g * z.p * (1 - z.p), size = z.gradient_size(g);
            } else if (section == 1) {
                const double g = at(g_post, t * m + q), p = at(post, t * m + q);
                a = g * p * (1 - p / in.post_mult), size = std::fabs(g * p);
            } else {
                a = at(g_comb, t * m * m + q), size = std::fabs(a);
            }
            sums.result.logits.set(t * columns + j, a * scale, size * std::fabs(scale));
            sums.add(section, j, a, size, logit);
        }
    sums.add_old(old_scale, old_base);
    return std::move(sums.result);
}

Exact head(const Extents& e, const Split& in) {
    Exact out(e.n * e.m);
    for (std::int64_t i = 0; i < e.n * e.m; ++i) {
        const Affine a(at(in.logits, i), at(in.scale, 0), at(in.base, i % e.m));
        out.set(i, a.p + in.pre_eps, a.p + in.pre_eps + a.sigmoid_size());
    }
    return out;
}

SplitGradients head_gradients(const Extents& e, const Split& in, const Numbers& g, const Numbers& old_scale,
                              const Numbers& old_base) {
    ParameterSums sums(1, e.m);
    sums.result.logits = Exact(e.n * e.m);
    for (std::int64_t i = 0; i < e.n * e.m; ++i) {
        const double logit = at(in.logits, i), scale = at(in.scale, 0);
        const Affine z(logit, scale, at(in.base, i % e.m));
        const double a = at(g, i) * z.p * (1 - z.p), size = z.gradient_size(at(g, i));
        sums.result.logits.set(i, a * scale, size * std::fabs(scale));
        sums.add(0, i % e.m, a, size, logit);
    }
    sums.add_old(old_scale, old_base);
    return std::move(sums.result);
}

}  // namespace tessera::mhc_reference
