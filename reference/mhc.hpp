#pragma once

#include <cstdint>
#include <string>
#include <vector>

// The hyper-connection kernels in float64, straight from their specification, with what a result may differ by: 8 u
// (u = 2⁻²⁴) times the formula with every term replaced by its magnitude, unless said otherwise. What is rounded to
// BF16 may differ by half a unit of its last place more. `verify` and the tests judge by it.

namespace tessera::mhc_reference {

using Numbers = std::vector<float>;

struct Exact {
    std::vector<double> value, limit;

    explicit Exact(std::int64_t count = 0)
        : value(static_cast<std::size_t>(count)), limit(static_cast<std::size_t>(count)) {}
    void set(std::int64_t i, double v, double magnitude) {
        value[static_cast<std::size_t>(i)] = v;
        limit[static_cast<std::size_t>(i)] = 0x1p-21 * magnitude;
    }
};

/// n tokens of m streams of h channels.
struct Extents {
    std::int64_t n, m, h = 0;
};

/// "" if every number is as near as its limit allows; else the first that is not. bf16: got was rounded to BF16.
std::string difference(const char* name, const Numbers& got, const Exact& exact, bool bf16 = false);

/// x: (n, m, m). `plain`: standard-normal logits and at most 20 repeats, which have a tighter limit.
Exact sinkhorn(const Extents& e, const Numbers& x, std::int64_t repeat, double eps, bool plain);
Exact sinkhorn(const Extents& e, const std::vector<double>& x, std::int64_t repeat, double eps, bool plain);
Exact sinkhorn_gradient(const Extents& e, const Numbers& x, const Numbers& g, std::int64_t repeat, double eps);

struct Post {
    Numbers y, residual, post, comb;
};
struct PostGradients {
    Exact y, residual, post, comb;
};
Exact post(const Extents& e, const Post& in);
/// old: what the residual's gradient is added to; empty: nothing.
PostGradients post_gradients(const Extents& e, const Post& in, const Numbers& g, const Numbers& old = {});

struct ApplyGradients {
    Exact residual, mix;
};
Exact apply(const Extents& e, const Numbers& residual, const Numbers& mix);
ApplyGradients apply_gradients(const Extents& e, const Numbers& residual, const Numbers& mix, const Numbers& g,
                               const Numbers& old = {});

struct Split {
    Numbers logits, scale, base;  // (n, m (m + 2)), (3), (m (m + 2))
    double post_mult, pre_eps;
};
struct Mixes {
    Exact pre, post, comb;
};
struct SplitGradients {
    Exact logits, scale, base;
};
Mixes split(const Extents& e, const Split& in);
/// post: the forward's result; what scale and base are added to, if anything.
SplitGradients split_gradients(const Extents& e, const Split& in, const Numbers& post, const Numbers& g_pre,
                               const Numbers& g_post, const Numbers& g_comb, const Numbers& old_scale = {},
                               const Numbers& old_base = {});

/// logits (n, m), scale (1), base (m).
Exact head(const Extents& e, const Split& in);
SplitGradients head_gradients(const Extents& e, const Split& in, const Numbers& g, const Numbers& old_scale = {},
                              const Numbers& old_base = {});

/// residual: (n, K) with K = m · h; fn: (J, K), rounded to TF32 in here.
struct Norm {
    Numbers residual, fn;
    double eps;
};
struct NormFn {
    Exact logits, products, square_sum;
};
struct NormGradients {
    Exact residual, fn;
};
NormFn norm_fn(const Extents& e, const Norm& in);
/// g: of the logits. old: what the gradients are added to, if anything.
NormGradients norm_fn_gradients(const Extents& e, const Norm& in, const Numbers& g, const Numbers& old_residual = {},
                                const Numbers& old_fn = {});
/// v rounded to TF32: to nearest, ties away from 0.
double nearest_tf32(double v);

/// fn: (J, K), weight: (K).
Exact merge(const Numbers& fn, const Numbers& weight);
struct MergeGradients {
    Exact fn, weight;
};
MergeGradients merge_gradients(const Numbers& fn, const Numbers& weight, const Numbers& g, const Numbers& old_fn = {},
                               const Numbers& old_weight = {});

struct Pre {
    Norm norm;
    Numbers scale, base;
    double post_mult, pre_eps, sinkhorn_eps;
    std::int64_t repeat;
};
struct PreMixes {
    Exact post, comb, u;
};
/// `plain`: as of sinkhorn.
PreMixes pre_big_fuse(const Extents& e, const Pre& in, bool plain);

}  // namespace tessera::mhc_reference
