#include <algorithm>
#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <limits>
#include <tessera/mhc.hpp>
#include <tessera/runtime.hpp>
#include <vector>

#include "kernels/mhc/norm_plan.hpp"
#include "tests/mhc/host_tensors.hpp"

// The logits of hyper-connections: values worked out by hand, rounding to TF32, NaN, no tokens, what is refused.

using namespace tessera;
using Catch::Contains;
using test::host;
using test::inf;
using test::numbers;
using test::values_of;
using test::zeros;

namespace {

/// Of values that BF16 has.
Tensor halves(const Shape& extents, const std::vector<float>& values) {
    std::vector<std::uint16_t> bits;
    for (const float v : values) bits.push_back(static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(v) >> 16));
    return Tensor::from_host(host, bf16, extents, bits.data());
}
mhc::NormFnSaved<TensorView> views(const mhc::NormFnSaved<Tensor>& s) { return {s.fn, s.products, s.square_sum}; }

}  // namespace

TEST_CASE("weights are rounded to TF32: to nearest, ties away from 0, infinities and NaN kept", "[mhc]") {
    const float quiet = std::bit_cast<float>(0x7FFFFFFFu), payload = std::bit_cast<float>(0xFF800001u);
    const std::vector<std::pair<float, float>> cases{
        {1.0f, 1.0f},
        {1.0f + 0x1p-11f, 1.0f + 0x1p-10f},  // a tie
        {-1.0f - 0x1p-11f, -1.0f - 0x1p-10f},
        {1.0f + 0x1.ffep-12f, 1.0f},         // just below it
        {1.0f + 0x3p-11f, 1.0f + 0x1p-9f},   // a tie whose lower neighbour is odd
        {1.0f + 0x5p-11f, 1.0f + 0x3p-10f},  // whose lower neighbour is even
        {0x1.fffffep127f, inf},
        {-0x1.fffffep127f, -inf},
        {inf, inf},
        {-inf, -inf},
        {-0.0f, -0.0f},
        {0x1p-149f, 0.0f},
        {0x1p-137f, 0x1p-136f},
    };
    std::vector<float> fn(64 * 24, 0.0f);
    for (std::size_t i = 0; i < cases.size(); ++i) fn[i] = cases[i].first;
    fn[cases.size()] = quiet, fn[cases.size() + 1] = payload;
    const auto out = mhc::norm_fn_forward(host.stream(), {zeros(bf16, {1, 4, 16}), numbers({24, 64}, fn)});
    const std::vector<float> rounded = values_of(out.saved.fn);
    for (std::size_t i = 0; i < cases.size(); ++i)
        CHECK(std::bit_cast<std::uint32_t>(rounded[i]) == std::bit_cast<std::uint32_t>(cases[i].second));
    CHECK(std::isnan(rounded[cases.size()]));
    CHECK(std::isnan(rounded[cases.size() + 1]));
}

TEST_CASE("products take the rounded weights, and eps lies inside the root", "[mhc]") {
    // One residual of 2 at channel 5, so that each product is twice one weight.
    std::vector<float> r(64, 0.0f), fn(3 * 64, 1000.0f);
    r[5] = 2.0f;
    fn[5] = 1.0f + 0x1p-11f, fn[64 + 5] = -3.0f, fn[128 + 5] = 0.0f;
    const Tensor residual = halves({1, 1, 64}, r), weights = numbers({3, 64}, fn);
    for (const std::int64_t splits : {1, 7}) {
        const auto out = mhc::norm_fn_forward(host.stream(), {residual, weights}, {0.1875f, splits});
        CHECK(values_of(out.saved.products) == std::vector<float>{2.0f + 0x1p-9f, -6.0f, 0.0f});
        CHECK(values_of(out.saved.square_sum) == std::vector<float>{4.0f});
        // 4 / 64 + 3 / 16 = 1 / 4, whose inverse root is 2.
        CHECK(values_of(out.logits) == std::vector<float>{4.0f + 0x1p-8f, -12.0f, 0.0f});
    }
}

TEST_CASE("a NaN or an infinity in fn reaches the logits of its row, and no others", "[mhc]") {
    const std::uint32_t nans[] = {0x7FFFFFFFu, 0x7FC00000u, 0xFFFFFFFFu, 0x7F800001u};
    for (const std::uint32_t bits : nans)
        for (const std::int64_t splits : {1, 4}) {
            std::vector<float> fn(24 * 256, 0.5f);
            fn[7 * 256 + 200] = std::bit_cast<float>(bits), fn[9 * 256] = inf;
            const Tensor residual = halves({3, 4, 64}, std::vector<float>(3 * 256, 1.0f));
            const auto out = mhc::norm_fn_forward(host.stream(), {residual, numbers({24, 256}, fn)}, {1e-6f, splits});
            const std::vector<float> logits = values_of(out.logits);
            for (std::size_t i = 0; i < logits.size(); ++i) {
                CHECK(std::isnan(logits[i]) == (i % 24 == 7));
                CHECK((logits[i] == inf) == (i % 24 == 9));
            }
        }
}

TEST_CASE("a residual of zeros: logits 0, finite gradients", "[mhc]") {
    const Tensor residual = zeros(bf16, {2, 4, 16}), fn = numbers({24, 64}, std::vector<float>(24 * 64, 0.25f)),
                 g = numbers({2, 24}, std::vector<float>(48, 1.0f));
    const auto out = mhc::norm_fn_forward(host.stream(), {residual, fn});
    CHECK(values_of(out.logits) == std::vector<float>(48, 0.0f));
    const auto d = mhc::norm_fn_backward(host.stream(), residual, views(out.saved), g);
    // Σ over 24 logits of 1 / √1e-6 · 0.25
    for (const float v : values_of(d.residual)) CHECK(v == Approx(6000).epsilon(0.004));
    CHECK(values_of(d.fn) == std::vector<float>(24 * 64, 0.0f));
}

TEST_CASE("the float64 gradients of norm_fn are those of finite differences", "[mhc]") {
    // The kernels are held to them by the random shapes. Their dmul is rounded to TF32, hence the tolerance.
    test::Random random(16);
    const mhc_reference::Extents e{3, 4, 16};
    for (const double eps : {1e-6, 0.5}) {
        mhc_reference::Norm in{test::normal_numbers(random, 3 * 64), test::normal_numbers(random, 24 * 64), eps};
        for (float& f : in.fn) f = static_cast<float>(mhc_reference::nearest_tf32(static_cast<double>(f)));
        const auto g = test::normal_numbers(random, 3 * 24);
        const auto loss = [&](const mhc_reference::Norm& at) {
            const auto logits = mhc_reference::norm_fn(e, at).logits.value;
            double sum = 0;
            for (std::size_t i = 0; i < logits.size(); ++i) sum += logits[i] * static_cast<double>(g[i]);
            return sum;
        };
        const auto d = mhc_reference::norm_fn_gradients(e, in, g);
        for (std::size_t i = 0; i < in.residual.size(); i += 5) {
            auto up = in, down = in;
            up.residual[i] += 0x1p-10f, down.residual[i] -= 0x1p-10f;
            const double step = static_cast<double>(up.residual[i]) - static_cast<double>(down.residual[i]);
            CHECK(d.residual.value[i] == Approx((loss(up) - loss(down)) / step).epsilon(1e-3).margin(4e-3));
        }
        for (std::size_t i = 0; i < in.fn.size(); i += 29) {
            auto up = in, down = in;
            up.fn[i] += 0.5f, down.fn[i] -= 0.5f;
            for (auto* x : {&up, &down})
                x->fn[i] = static_cast<float>(mhc_reference::nearest_tf32(static_cast<double>(x->fn[i])));
            const double step = static_cast<double>(up.fn[i]) - static_cast<double>(down.fn[i]);
            CHECK(d.fn.value[i] == Approx((loss(up) - loss(down)) / step).epsilon(1e-3).margin(4e-3));
        }
    }
}

TEST_CASE("pre_big_fuse of a plain residual: equal streams pass through", "[mhc]") {
    // scale 0, pre 1/4, post 1, comb 1/4 everywhere.
    std::vector<float> base(24, 0.0f), r;
    for (int i = 0; i < 4; ++i) base[static_cast<std::size_t>(i)] = -std::log(3.0f);
    for (int t = 0; t < 5; ++t)
        for (int s = 0; s < 4; ++s)
            for (int c = 0; c < 16; ++c) r.push_back(static_cast<float>(t - c));
    mhc::PreOptions options;
    options.post_mult = 2.0f, options.pre_eps = 0.0f;
    const auto out = mhc::pre_big_fuse(host.stream(),
                                       {halves({5, 4, 16}, r), numbers({24, 64}, std::vector<float>(24 * 64, 1.0f)),
                                        zeros(f32, {3}), numbers({24}, base)},
                                       options);
    for (const float p : values_of(out.post)) CHECK(p == 1.0f);
    for (const float c : values_of(out.comb)) CHECK(c == Approx(0.25f).margin(1e-6));
    const std::vector<float> u = values_of(out.u);
    for (std::size_t i = 0; i < u.size(); ++i) CHECK(u[i] == Approx(r[i / 16 * 64 + i % 16]).epsilon(0.004));
}

TEST_CASE("no tokens: the gradient of fn is 0, or as it was", "[mhc]") {
    const Stream s = host.stream();
    const Tensor residual = zeros(bf16, {2, 0, 4, 64}), fn = numbers({24, 256}, std::vector<float>(24 * 256, 1.5f));
    const auto out = mhc::norm_fn_forward(s, {residual, fn});
    CHECK(out.logits.extents() == Shape{2, 0, 24});
    CHECK(values_of(out.saved.fn) == values_of(fn));
    const Tensor g = zeros(f32, {2, 0, 24}), none = zeros(bf16, {2, 0, 4, 64});
    CHECK(values_of(mhc::norm_fn_backward(s, residual, views(out.saved), g).fn) == std::vector<float>(24 * 256, 0.0f));
    const Tensor kept = numbers({24, 256}, std::vector<float>(24 * 256, -0.0f));
    mhc::norm_fn_backward(s, residual, views(out.saved), g, mhc::NormFnGradients<TensorView>{none, kept}, {},
                          mhc::Residual::accumulate, true);
    for (const float v : values_of(kept)) CHECK(std::signbit(v));
    const auto pre = mhc::pre_big_fuse(s, {residual, fn, zeros(f32, {3}), zeros(f32, {24})});
    CHECK(pre.post.extents() == Shape{2, 0, 4});
    CHECK(pre.comb.extents() == Shape{2, 0, 4, 4});
    CHECK(pre.u.extents() == Shape{2, 0, 64});
}

TEST_CASE("three leading axes, or none", "[mhc]") {
    test::Random random(3);
    const Tensor fn = numbers({24, 64}, test::normal_numbers(random, 24 * 64));
    const std::vector<float> r = test::normal_bf16(random, 6 * 64);
    const auto wide = mhc::norm_fn_forward(host.stream(), {halves({1, 2, 3, 4, 16}, r), fn});
    CHECK(wide.logits.extents() == Shape{1, 2, 3, 24});
    CHECK(wide.saved.square_sum.extents() == Shape{1, 2, 3});
    const auto pre =
        mhc::pre_big_fuse(host.stream(), {halves({1, 2, 3, 4, 16}, r), fn, zeros(f32, {3}), zeros(f32, {24})});
    CHECK(pre.post.extents() == Shape{1, 2, 3, 4});
    CHECK(pre.comb.extents() == Shape{1, 2, 3, 4, 4});
    CHECK(pre.u.extents() == Shape{1, 2, 3, 16});
    const auto one = mhc::norm_fn_forward(host.stream(), {halves({4, 16}, {r.begin(), r.begin() + 64}), fn});
    CHECK(one.logits.extents() == Shape{24});
    const std::vector<float> all = values_of(wide.logits);
    CHECK(values_of(one.logits) == std::vector<float>(all.begin(), all.begin() + 24));
}

TEST_CASE("splits and parts: no empty ones, and enough for the device", "[mhc]") {
    for (const std::int64_t sms : {1, 78, 114, 131, 132, 148})
        for (const std::int64_t inner : {64, 128, 5120, 10240, 16384, 28672})
            for (const std::int64_t n : {0, 1, 13, 33, 512, 2048, 8192, 100000}) {
                const std::int64_t splits = mhc::norm_splits(n, inner, sms), parts = mhc::norm_parts(n, inner, sms);
                CHECK((splits >= 1 && splits <= std::min<std::int64_t>(64, inner / 64)));
                CHECK((parts >= 1 && parts <= std::max<std::int64_t>(1, (n + 15) / 16)));
            }
    CHECK(mhc::norm_splits(8192, 28672, 132) == 2);
    CHECK(mhc::norm_splits(2048, 28672, 132) == 8);
    CHECK(mhc::norm_splits(512, 28672, 132) == 32);
    CHECK(mhc::norm_splits(1, 28672, 132) == 56);
    CHECK(mhc::norm_parts(8192, 28672, 132) == 2);  // 112 · 2 blocks in the 264 places that there are at once
}

TEST_CASE("what does not fit the logits is refused, naming it", "[mhc]") {
    const Stream s = host.stream();
    const Tensor r = zeros(bf16, {2, 4, 64}), fn = zeros(f32, {24, 256}), logits = zeros(f32, {2, 24}),
                 square_sum = zeros(f32, {2}), scale = zeros(f32, {3}), base = zeros(f32, {24});
    const mhc::NormFnSaved<TensorView> saved{fn, logits, square_sum};
    CHECK_THROWS_WITH(mhc::norm_fn_forward(s, {zeros(f32, {2, 4, 64}), fn}), Contains("residual is f32"));
    CHECK_THROWS_WITH(mhc::norm_fn_forward(s, {zeros(bf16, {64}), fn}), Contains("last 2 axes"));
    CHECK_THROWS_WITH(mhc::norm_fn_forward(s, {zeros(bf16, {2, 5, 64}), fn}), Contains("5 streams; from 1 to 4"));
    CHECK_THROWS_WITH(mhc::norm_fn_forward(s, {zeros(bf16, {2, 4, 24}), fn}), Contains("multiple of 64"));
    CHECK_THROWS_WITH(mhc::norm_fn_forward(s, {zeros(bf16, {2, 4, 0}), fn}), Contains("multiple of 64"));
    CHECK_THROWS_WITH(mhc::norm_fn_forward(s, {r, zeros(f32, {24, 255})}), Contains("fn has extents [24, 255]"));
    CHECK_THROWS_WITH(mhc::norm_fn_forward(s, {r, zeros(f32, {25, 256})}), Contains("from 1 to 24 rows"));
    CHECK_THROWS_WITH(mhc::norm_fn_forward(s, {r, zeros(bf16, {24, 256})}), Contains("fn is bf16"));
    CHECK_THROWS_WITH(mhc::norm_fn_forward(s, {r, fn}, {-1.0f, 0}), Contains("eps is -1"));
    CHECK_THROWS_WITH(mhc::norm_fn_forward(s, {r, fn}, {std::nanf(""), 0}), Contains("eps is nan"));
    CHECK_THROWS_WITH(mhc::norm_fn_forward(s, {r, fn}, {1e-6f, 65}), Contains("splits is 65; it is from 1 to 64"));
    CHECK_THROWS_WITH(mhc::norm_fn_forward(s, {r, fn}, {1e-6f, -1}), Contains("splits is -1"));
    const Tensor longer = zeros(bf16, {2 * 256 + 8});
    TensorView shifted = longer.view().slice(0, 1, 513);
    shifted.extents = {2, 4, 64}, shifted.strides = dense_strides(shifted.extents);
    CHECK_THROWS_WITH(mhc::norm_fn_forward(s, {shifted, fn}), Contains("must begin at a multiple of 16 bytes"));
    CHECK_THROWS_WITH(mhc::norm_fn_backward(s, r, saved, zeros(f32, {3, 24})), Contains("grad_logits is f32 [3, 24]"));
    CHECK_THROWS_WITH(mhc::norm_fn_backward(s, r, {fn, zeros(f32, {2, 4}), square_sum}, logits),
                      Contains("saved.products is f32 [2, 4]"));
    CHECK_THROWS_WITH(mhc::norm_fn_backward(s, r, saved, logits, mhc::NormFnGradients<TensorView>{r, base}),
                      Contains("gradients.fn is f32 [24]"));
    CHECK_THROWS_WITH(mhc::merge_norm_weight_forward(s, fn, base), Contains("weight is f32 [24]"));
    CHECK_THROWS_WITH(mhc::merge_norm_weight_forward(s, base, base), Contains("fn has extents [24]"));
    CHECK_THROWS_WITH(mhc::merge_norm_weight_backward(s, fn, zeros(f32, {256}), base),
                      Contains("grad_out is f32 [24]"));
    mhc::PreOptions none;
    none.repeat = 0;
    CHECK_THROWS_WITH(mhc::pre_big_fuse(s, {r, fn, scale, base}, none), Contains("repeat is 0"));
    mhc::PreOptions negative;
    negative.sinkhorn_eps = -1;
    CHECK_THROWS_WITH(mhc::pre_big_fuse(s, {r, fn, scale, base}, negative), Contains("sinkhorn_eps is -1"));
    CHECK_THROWS_WITH(mhc::pre_big_fuse(s, {r, zeros(f32, {4, 256}), scale, base}), Contains("4 streams have 24"));
    CHECK_THROWS_WITH(mhc::pre_big_fuse(s, {r, fn, base, base}), Contains("scale is f32 [24]"));
}
