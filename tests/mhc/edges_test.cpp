#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <tessera/mhc.hpp>
#include <tessera/runtime.hpp>
#include <vector>

#include "tests/mhc/host_tensors.hpp"

// Values worked out by hand, what the specification says about single matrices, and what is refused.

using namespace tessera;
using Catch::Contains;
using test::host;
using test::inf;
using test::numbers;
using test::values_of;
using test::zeros;

namespace {

/// Column sums of a 4 × 4 matrix.
std::vector<float> column_sums(const float* y) {
    std::vector<float> sums(4, 0.0f);
    for (int i = 0; i < 16; ++i) sums[static_cast<std::size_t>(i % 4)] += y[i];
    return sums;
}

}  // namespace

TEST_CASE("sinkhorn of equal logits is uniform", "[mhc][C23]") {
    for (const float logit : {0.0f, 3.0f, -80.0f, 1e4f}) {
        const Tensor x = numbers({1, 4, 4}, std::vector<float>(16, logit));
        for (const float y : values_of(mhc::sinkhorn_forward(host.stream(), x))) CHECK(y == Approx(0.25f).margin(1e-6));
    }
}

TEST_CASE("sinkhorn of one huge logit among very small ones stays finite, with columns of sum 1", "[mhc][C23]") {
    std::vector<float> x(16, -1e4f);
    x[5] = 1e4f;
    const Tensor y = mhc::sinkhorn_forward(host.stream(), numbers({4, 4}, x), {20, 1e-6f});
    for (const float sum : column_sums(y.as<const float>())) CHECK(sum == Approx(1.0f).margin(1e-5));
}

TEST_CASE("a row of minus infinity, a NaN or an infinity makes that matrix NaN and no other", "[mhc][C23]") {
    for (const int kind : {0, 1, 2}) {
        std::vector<float> x(48, 0.5f);
        if (kind == 0) x[20] = x[21] = x[22] = x[23] = -inf;
        if (kind == 1) x[18] = std::nanf("");
        if (kind == 2) x[30] = inf;
        const Tensor logits = numbers({3, 4, 4}, x), g = numbers({3, 4, 4}, std::vector<float>(48, 1.0f));
        for (const Tensor& t :
             {mhc::sinkhorn_forward(host.stream(), logits), mhc::sinkhorn_backward(host.stream(), logits, g)}) {
            const std::vector<float> y = values_of(t);
            for (std::size_t i = 0; i < 48; ++i) CHECK(std::isnan(y[i]) == (i / 16 == 1));
        }
    }
}

TEST_CASE("a lone logit of minus infinity gives eps at first", "[mhc]") {
    std::vector<float> x(4, 0.0f);
    x[1] = -inf;
    const Tensor y = mhc::sinkhorn_forward(host.stream(), numbers({2, 2}, x), {1, 1e-2f});
    CHECK(y.as<const float>()[1] == Approx(0.01 / (0.01 + 0.51 + 0.01)));
}

TEST_CASE("sinkhorn's gradient is that of finite differences", "[mhc][C24]") {
    test::Random random(5);
    for (const std::int64_t m : {4, 8, 3})
        for (const std::int64_t repeat : {1, 2, 10, 20}) {
            const auto count = static_cast<std::size_t>(m * m);
            std::vector<float> x(count), g = test::normal_numbers(random, m * m);
            for (float& v : x) v = static_cast<float>(4 * random.unit());
            // The difference quotient of the float64 forward, along logit `at`.
            const auto moved = [&](std::size_t at, double by) {
                std::vector<float> y = x;
                y[at] += static_cast<float>(by);
                const auto result = mhc_reference::sinkhorn({1, m}, y, repeat, 1e-6, true).value;
                double sum = 0;
                for (std::size_t i = 0; i < count; ++i) sum += result[i] * static_cast<double>(g[i]);
                return std::pair(sum, static_cast<double>(y[at]));
            };
            const std::vector<float> dx = values_of(
                mhc::sinkhorn_backward(host.stream(), numbers({m, m}, x), numbers({m, m}, g), {repeat, 1e-6f}));
            for (std::size_t i = 0; i < count; ++i) {
                const auto up = moved(i, 0x1p-10), down = moved(i, -0x1p-10);
                const double quotient = (up.first - down.first) / (up.second - down.second);
                CHECK(static_cast<double>(dx[i]) == Approx(quotient).epsilon(1e-4).margin(2e-6));
            }
        }
}

TEST_CASE("the float64 gradients of post, apply and split are those of finite differences", "[mhc]") {
    // The kernels are held to them by the random shapes.
    test::Random random(6);
    const mhc_reference::Extents e{3, 4, 8};
    const auto bump = [](std::vector<float> v, std::size_t i, float by) {
        v[i] += by;
        return v;
    };
    const auto dot = [](const mhc_reference::Exact& a, const std::vector<float>& g) {
        double sum = 0;
        for (std::size_t i = 0; i < g.size(); ++i) sum += a.value[i] * static_cast<double>(g[i]);
        return sum;
    };
    const auto check = [&](const mhc_reference::Exact& gradient, const std::vector<float>& x, auto&& loss) {
        for (std::size_t i = 0; i < x.size(); ++i) {
            const auto up = bump(x, i, 0x1p-8f), down = bump(x, i, -0x1p-8f);
            const double step = static_cast<double>(up[i]) - static_cast<double>(down[i]);
            CHECK(gradient.value[i] == Approx((loss(up) - loss(down)) / step).epsilon(1e-4).margin(1e-4));
        }
    };
    using test::normal_numbers;
    const mhc_reference::Post p{normal_numbers(random, 24), normal_numbers(random, 96), normal_numbers(random, 12),
                                normal_numbers(random, 48)};
    const auto g = normal_numbers(random, 96), gu = normal_numbers(random, 24);
    const auto dp = mhc_reference::post_gradients(e, p, g);
    check(dp.y, p.y, [&](const auto& v) { return dot(mhc_reference::post(e, {v, p.residual, p.post, p.comb}), g); });
    check(dp.residual, p.residual,
          [&](const auto& v) { return dot(mhc_reference::post(e, {p.y, v, p.post, p.comb}), g); });
    check(dp.post, p.post, [&](const auto& v) { return dot(mhc_reference::post(e, {p.y, p.residual, v, p.comb}), g); });
    check(dp.comb, p.comb, [&](const auto& v) { return dot(mhc_reference::post(e, {p.y, p.residual, p.post, v}), g); });
    const auto da = mhc_reference::apply_gradients(e, p.residual, p.post, gu);
    check(da.residual, p.residual, [&](const auto& v) { return dot(mhc_reference::apply(e, v, p.post), gu); });
    check(da.mix, p.post, [&](const auto& v) { return dot(mhc_reference::apply(e, p.residual, v), gu); });
    const mhc_reference::Split s{normal_numbers(random, 72), normal_numbers(random, 3), normal_numbers(random, 24), 2.0,
                                 0.01};
    const auto g_pre = normal_numbers(random, 12), g_post = normal_numbers(random, 12), g_comb = p.comb;
    const auto post = mhc_reference::split(e, s).post.value;
    const auto ds = mhc_reference::split_gradients(e, s, {post.begin(), post.end()}, g_pre, g_post, g_comb);
    const auto loss = [&](const mhc_reference::Split& in) {
        const auto mixes = mhc_reference::split(e, in);
        return dot(mixes.pre, g_pre) + dot(mixes.post, g_post) + dot(mixes.comb, g_comb);
    };
    check(ds.logits, s.logits, [&](const auto& v) { return loss({v, s.scale, s.base, 2.0, 0.01}); });
    check(ds.scale, s.scale, [&](const auto& v) { return loss({s.logits, v, s.base, 2.0, 0.01}); });
    check(ds.base, s.base, [&](const auto& v) { return loss({s.logits, s.scale, v, 2.0, 0.01}); });
}

TEST_CASE("no tokens: gradients of parameters are 0, or as they were", "[mhc]") {
    const Stream s = host.stream();
    const Tensor none = zeros(f32, {0, 24}), mix = zeros(f32, {0, 4}), comb = zeros(f32, {0, 4, 4});
    const Tensor scale = numbers({3}, {1, 2, 3}), base = numbers({24}, std::vector<float>(24, 2.0f));
    const mhc::SplitInputs inputs{none, scale, base};
    const auto g = mhc::split_mixes_backward(s, inputs, mix, {mix, mix, comb});
    CHECK(values_of(g.scale) == std::vector<float>(3, 0.0f));
    CHECK(values_of(g.base) == std::vector<float>(24, 0.0f));
    const Tensor kept = numbers({3}, {5, 6, 7});
    mhc::split_mixes_backward(s, inputs, mix, {mix, mix, comb}, {none, kept, g.base}, {}, {true, false});
    CHECK(values_of(kept) == std::vector<float>{5, 6, 7});
    CHECK(mhc::sinkhorn_forward(s, comb).extents() == Shape{0, 4, 4});
    CHECK(mhc::expand_forward(s, zeros(bf16, {2, 0, 64})).extents() == Shape{2, 0, 4, 64});
    CHECK(mhc::apply_mix_backward(s, zeros(bf16, {0, 4, 64}), mix, zeros(bf16, {0, 64})).mix.count() == 0);
}

TEST_CASE("columns of wider logits are a head's logits", "[mhc]") {
    test::Random random(9);
    const std::vector<float> all = test::normal_numbers(random, 5 * 24);
    const Tensor wide = numbers({5, 24}, all), scale = numbers({1}, {0.5f}), base = numbers({4}, {0, 1, -1, 2});
    std::vector<float> first;
    for (std::size_t i = 0; i < all.size(); ++i)
        if (i % 24 < 4) first.push_back(all[i]);
    const TensorView slice = wide.view().slice(1, 0, 4);
    const auto sliced = mhc::head_compute_mix_forward(host.stream(), {slice, scale, base}, 0.01f);
    CHECK(values_of(sliced) ==
          values_of(mhc::head_compute_mix_forward(host.stream(), {numbers({5, 4}, first), scale, base}, 0.01f)));
}

TEST_CASE("what does not fit is refused, naming it", "[mhc]") {
    const Stream s = host.stream();
    const Tensor r = zeros(bf16, {2, 4, 64}), y = zeros(bf16, {2, 64}), post = zeros(f32, {2, 4, 1}),
                 comb = zeros(f32, {2, 4, 4});
    CHECK_THROWS_WITH(mhc::sinkhorn_forward(s, comb, {0, 1e-6f}), Contains("repeat is 0"));
    for (std::int64_t many : {std::int64_t{65537}, std::int64_t{1} << 62}) {  // the kernel would run for years
        CHECK_THROWS_WITH(mhc::sinkhorn_forward(s, comb, {many, 1e-6f}), Contains("from 1 to 65536 normalisations"));
        CHECK_THROWS_WITH(mhc::sinkhorn_backward(s, comb, comb, {many, 1e-6f}), Contains("from 1 to 65536"));
    }
    CHECK_THROWS_WITH(mhc::sinkhorn_forward(s, comb, {10, -1.0f}), Contains("eps is -1"));
    CHECK_THROWS_WITH(mhc::sinkhorn_forward(s, comb, {10, std::nanf("")}), Contains("eps is nan"));
    CHECK_THROWS_WITH(mhc::sinkhorn_forward(s, zeros(f32, {2, 9, 9})), Contains("9 streams; from 1 to 8"));
    CHECK_THROWS_WITH(mhc::sinkhorn_forward(s, zeros(f32, {2, 4, 3})), Contains("dense f32 [..., m, m]"));
    CHECK_THROWS_WITH(mhc::sinkhorn_backward(s, comb, zeros(f32, {3, 4, 4})), Contains("grad_out is f32 [3, 4, 4]"));
    CHECK_THROWS_WITH(mhc::expand_forward(s, zeros(f32, {2, 64})), Contains("x is f32"));
    CHECK_THROWS_WITH(mhc::expand_forward(s, y, 12), Contains("12 streams"));
    CHECK_THROWS_WITH(mhc::apply_mix_forward(s, r, zeros(f32, {2, 3})), Contains("mix is f32 [2, 3]"));
    CHECK_THROWS_WITH(mhc::post_forward(s, {y, r, post, zeros(f32, {2, 4})}), Contains("comb is f32 [2, 4]"));
    CHECK_THROWS_WITH(mhc::post_backward(s, {y, r, post, comb}, y), Contains("grad_out is bf16 [2, 64]"));
    CHECK_THROWS_WITH(mhc::post_forward(s, {y, zeros(bf16, {2, 4, 0}), post, comb}), Contains("0 channels"));
    const Tensor logits = zeros(f32, {2, 24}), scale = zeros(f32, {3}), base = zeros(f32, {24});
    CHECK_THROWS_WITH(mhc::split_mixes_forward(s, {zeros(f32, {2, 25}), scale, base}), Contains("25 columns"));
    CHECK_THROWS_WITH(mhc::split_mixes_forward(s, {logits, base, base}), Contains("scale is f32 [24]"));
    CHECK_THROWS_WITH(
        mhc::split_mixes_backward(s, {logits, scale, base}, post, {post, post, comb}, mhc::SplitOptions{0.0f, 0.0f}),
        Contains("post_mult is 0"));
    CHECK_THROWS_WITH(mhc::head_compute_mix_forward(s, {zeros(f64, {2, 4}), scale, base}), Contains("logits is f64"));
}
