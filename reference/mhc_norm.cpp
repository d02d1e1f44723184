#include <algorithm>
#include <cmath>

#include "reference/mhc.hpp"

namespace tessera::mhc_reference {

namespace {

constexpr double u = 0x1p-24;

double at(const Numbers& v, std::int64_t i) { return static_cast<double>(v[static_cast<std::size_t>(i)]); }
double at_or_zero(const Numbers& v, std::int64_t i) { return v.empty() ? 0.0 : at(v, i); }
double& put(std::vector<double>& v, std::int64_t i) { return v[static_cast<std::size_t>(i)]; }

/// What a sum of `terms` on tensor cores, which truncate, may be off by, of the sum of magnitudes.
double sum_error(std::int64_t terms) { return std::fmax(8, std::sqrt(static_cast<double>(terms)) / 2) * u; }

double tf32_ulp(double v) { return v == 0 ? 0x1p-136 : std::ldexp(1.0, std::max(std::ilogb(v), -126) - 10); }

/// One token's sums and what follows from them.
class Token {
public:
    Token(const Extents& e, const Norm& in, const std::vector<double>& fn, std::int64_t t)
        : inner_(e.m * e.h), first_(t * inner_), in_(in), fn_(fn) {
        const auto columns = static_cast<std::int64_t>(fn.size()) / inner_;
        for (std::int64_t k = 0; k < inner_; ++k) square_sum += r(k) * r(k);
        for (std::int64_t j = 0; j < columns; ++j) {
            products.push_back(0), sizes.push_back(0);
            for (std::int64_t k = 0; k < inner_; ++k) {
                const double term = r(k) * f(j, k);
                products.back() += term, sizes.back() += std::fabs(term);
            }
        }
        inverse = 1 / std::sqrt(square_sum / static_cast<double>(inner_) + in.eps);
    }
    double r(std::int64_t k) const { return at(in_.residual, first_ + k); }
    double f(std::int64_t j, std::int64_t k) const { return fn_[static_cast<std::size_t>(j * inner_ + k)]; }

    double square_sum = 0, inverse = 0;
    std::vector<double> products, sizes;  // of each logit; sizes: sums of magnitudes

private:
    std::int64_t inner_, first_;
    const Norm& in_;
    const std::vector<double>& fn_;
};

std::vector<double> rounded(const Numbers& fn) {
    std::vector<double> result;
    for (const float v : fn) result.push_back(nearest_tf32(static_cast<double>(v)));
    return result;
}

/// The gradient of a product, as the tensor core reads it, and how far it may be from that: where the exact one lies
/// next to a tie, either neighbour is right.
struct Rounded {
    double value, doubt;
    Rounded(double exact, std::int64_t inner) : value(nearest_tf32(exact)), doubt(0) {
        const double ulp = tf32_ulp(exact),
                     near = std::fmax(16, std::sqrt(static_cast<double>(inner)) / 2) * ulp / 8192;
        if (std::fabs(std::fabs(exact - value) - ulp / 2) <= near) doubt = ulp;
    }
};

}  // namespace

double nearest_tf32(double v) {
    if (!std::isfinite(v) || v == 0) return v;
    const double ulp = tf32_ulp(v), rounded = std::round(v / ulp) * ulp;  // std::round takes ties away from 0
    return std::fabs(rounded) >= 0x1p128 ? std::copysign(HUGE_VAL, v) : rounded;
}

NormFn norm_fn(const Extents& e, const Norm& in) {
    const std::int64_t inner = e.m * e.h, columns = static_cast<std::int64_t>(in.fn.size()) / inner;
    const std::vector<double> fn = rounded(in.fn);
    NormFn out{Exact(e.n * columns), Exact(e.n * columns), Exact(e.n)};
    for (std::int64_t t = 0; t < e.n; ++t) {
        const Token token(e, in, fn, t);
        out.square_sum.set(t, token.square_sum, token.square_sum);
        for (std::int64_t j = 0; j < columns; ++j) {
            const double product = token.products[static_cast<std::size_t>(j)],
                         limit = sum_error(inner) * token.sizes[static_cast<std::size_t>(j)];
            put(out.products.value, t * columns + j) = product;
            put(out.products.limit, t * columns + j) = limit;
            put(out.logits.value, t * columns + j) = product * token.inverse;
            put(out.logits.limit, t * columns + j) = limit * token.inverse;
        }
    }
    return out;
}

NormGradients norm_fn_gradients(const Extents& e, const Norm& in, const Numbers& g, const Numbers& old_residual,
                                const Numbers& old_fn) {
    const std::int64_t inner = e.m * e.h, columns = static_cast<std::int64_t>(in.fn.size()) / inner;
    const std::vector<double> fn = rounded(in.fn);
    NormGradients out{Exact(e.n * inner), Exact(columns * inner)};
    for (std::int64_t i = 0; i < columns * inner; ++i) {
        const double old = at_or_zero(old_fn, i);
        put(out.fn.value, i) = old, put(out.fn.limit, i) = 8 * u * std::fabs(old);
    }
    for (std::int64_t t = 0; t < e.n; ++t) {
        const Token token(e, in, fn, t);
        const double r = token.inverse, all = token.square_sum + in.eps * static_cast<double>(inner);
        double dot = 0, size = 0;
        std::vector<Rounded> d;
        for (std::int64_t j = 0; j < columns; ++j) {
            const double gj = at(g, t * columns + j);
            dot += gj * token.products[static_cast<std::size_t>(j)];
            size += std::fabs(gj) * token.sizes[static_cast<std::size_t>(j)];
            d.emplace_back(gj * r, inner);
        }
        const double grad_square = dot * r / all / -2, grad_square_size = size * r / all;
        for (std::int64_t k = 0; k < inner; ++k) {
            const double old = at_or_zero(old_residual, t * inner + k), rk = token.r(k);
            double sum = old, magnitude = std::fabs(old), doubt = 0;
            for (std::int64_t j = 0; j < columns; ++j) {
                const Rounded& dj = d[static_cast<std::size_t>(j)];
                sum += dj.value * token.f(j, k), magnitude += std::fabs(dj.value * token.f(j, k));
                doubt += dj.doubt * std::fabs(token.f(j, k));
                put(out.fn.value, j * inner + k) += dj.value * rk;
                put(out.fn.limit, j * inner + k) +=
                    sum_error(e.n) * std::fabs(dj.value * rk) + dj.doubt * std::fabs(rk);
            }
            put(out.residual.value, t * inner + k) = sum + 2 * rk * grad_square;
            put(out.residual.limit, t * inner + k) =
                8 * u * magnitude + sum_error(inner) * std::fabs(rk) * grad_square_size + doubt;
        }
    }
    return out;
}

Exact merge(const Numbers& fn, const Numbers& weight) {
    const auto inner = static_cast<std::int64_t>(weight.size());
    Exact out(static_cast<std::int64_t>(fn.size()));
    for (std::int64_t i = 0; i < static_cast<std::int64_t>(fn.size()); ++i) {
        const double v = at(fn, i) * at(weight, i % inner);
        out.set(i, v, std::fabs(v));
    }
    return out;
}

MergeGradients merge_gradients(const Numbers& fn, const Numbers& weight, const Numbers& g, const Numbers& old_fn,
                               const Numbers& old_weight) {
    const auto inner = static_cast<std::int64_t>(weight.size());
    MergeGradients out{Exact(static_cast<std::int64_t>(fn.size())), Exact(inner)};
    std::vector<double> sizes;
    for (std::int64_t k = 0; k < inner; ++k) {
        const double old = at_or_zero(old_weight, k);
        put(out.weight.value, k) = old;
        sizes.push_back(std::fabs(old));
    }
    for (std::int64_t i = 0; i < static_cast<std::int64_t>(fn.size()); ++i) {
        const std::int64_t k = i % inner;
        const double old = at_or_zero(old_fn, i), term = at(g, i) * at(weight, k);
        out.fn.set(i, old + term, std::fabs(old) + std::fabs(term));
        put(out.weight.value, k) += at(g, i) * at(fn, i);
        put(sizes, k) += std::fabs(at(g, i) * at(fn, i));
    }
    for (std::int64_t k = 0; k < inner; ++k) put(out.weight.limit, k) = 8 * u * put(sizes, k);
    return out;
}

PreMixes pre_big_fuse(const Extents& e, const Pre& in, bool plain) {
    const std::int64_t m = e.m, columns = m * (m + 2), h = e.h;
    const NormFn norm = norm_fn(e, in.norm);
    PreMixes out{Exact(e.n * m), Exact(), Exact(e.n * h)};
    // Of a logit: its affine value, what that may be off by for the product's sake, and the sum of magnitudes.
    struct Affine {
        double z, doubt, size;
    };
    const auto affine = [&](std::int64_t t, std::int64_t j) {
        const double logit = norm.logits.value[static_cast<std::size_t>(t * columns + j)],
                     scale = at(in.scale, std::min<std::int64_t>(2, j / m)), base = at(in.base, j);
        return Affine{logit * scale + base,
                      norm.logits.limit[static_cast<std::size_t>(t * columns + j)] * std::fabs(scale),
                      std::fabs(logit * scale) + std::fabs(base)};
    };
    const auto sigmoid = [](double z) { return 1 / (1 + std::exp(-z)); };
    std::vector<double> comb;
    for (std::int64_t t = 0; t < e.n; ++t) {
        for (std::int64_t q = 0; q < m * m; ++q) comb.push_back(affine(t, 2 * m + q).z);
        for (std::int64_t i = 0; i < m; ++i) {
            const Affine a = affine(t, m + i);
            const double p = sigmoid(a.z), mult = std::fabs(in.post_mult);
            out.post.set(t * m + i, p * in.post_mult, mult * (p + p * (1 - p) * a.size));
            put(out.post.limit, t * m + i) += a.doubt * mult / 4;

            const Affine b = affine(t, i);
            const double pre = sigmoid(b.z), size = pre + in.pre_eps + pre * (1 - pre) * b.size;
            for (std::int64_t c = 0; c < h; ++c) {
                const double r = at(in.norm.residual, (t * m + i) * h + c);
                put(out.u.value, t * h + c) += (pre + in.pre_eps) * r;
                put(out.u.limit, t * h + c) += std::fabs(r) * (8 * u * size + b.doubt / 4);
            }
        }
    }
    out.comb = sinkhorn(e, comb, in.repeat, in.sinkhorn_eps, plain);
    for (std::int64_t t = 0; t < e.n; ++t) {
        double doubt = 0;
        for (std::int64_t q = 0; q < m * m; ++q) doubt = std::fmax(doubt, affine(t, 2 * m + q).doubt);
        for (std::int64_t i = t * m * m; i < (t + 1) * m * m; ++i)
            put(out.comb.limit, i) += 2 * out.comb.value[static_cast<std::size_t>(i)] * doubt;
    }
    return out;
}

}  // namespace tessera::mhc_reference
