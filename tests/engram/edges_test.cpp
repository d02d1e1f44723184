#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <tessera/dsl.hpp>
#include <tessera/engram.hpp>
#include <vector>

#include "dsl/base/error.hpp"
#include "tests/support/reference/formats.hpp"

// What the specification says about single values and rows, with the expected numbers written out.

using namespace tessera;

namespace {

const Device host = Device::host();

template <class T>
TensorView view(const std::vector<T>& values, Element element, const Shape& extents) {
    return TensorView::of(host, static_cast<const void*>(values.data()), element, extents);
}
template <class T>
std::vector<T> values_of(const Tensor& t) {
    return {t.as<const T>(), t.as<const T>() + t.count()};
}
using Bf16 = std::vector<std::uint16_t>;

template <class Call>
void check_refusal(Call&& call, const std::string& word) {
    try {
        call();
        FAIL("nothing was refused");
    } catch (const UsageError& error) {
        CHECK_THAT(error.what(), Catch::Contains(word, Catch::CaseSensitive::No));
    }
}

/// One token and head of `hidden` equal channels.
struct Flat {
    std::int64_t hidden;
    Bf16 x, k, v, go;
    std::vector<float> w;
    Flat(std::int64_t h, float x_value, float k_value, float v_value, float w_value = 1.0f)
        : hidden(h),
          x(static_cast<std::size_t>(h), reference::bf16_nearest(x_value)),
          k(static_cast<std::size_t>(h), reference::bf16_nearest(k_value)),
          v(static_cast<std::size_t>(h), reference::bf16_nearest(v_value)),
          go(static_cast<std::size_t>(h), reference::bf16_nearest(0.5f)),
          w(static_cast<std::size_t>(h), w_value) {}
    engram::GateInputs inputs() const {
        return {view(x, bf16, {1, 1, hidden}), view(k, bf16, {1, 1, hidden}), view(v, bf16, {1, hidden}),
                view(w, f32, {1, hidden})};
    }
    engram::GateOutputs forward(const engram::GateOptions& o = {}) const {
        return engram::gate_forward(host.stream(), inputs(), o);
    }
    engram::BackwardOutputs backward(const engram::GateOutputs& saved, float clamp = 1e-6f) const {
        return engram::gate_backward(
            host.stream(),
            {view(go, bf16, {1, 1, hidden}), inputs(), saved.dot, saved.gate_score, saved.rstd_x, saved.rstd_k},
            {clamp, 3});
    }
};

float first(const Tensor& t) { return t.as<const float>()[0]; }
float first_bf16(const Tensor& t) { return reference::bf16_value(t.as<const std::uint16_t>()[0]); }

struct HashCase {
    std::vector<std::int32_t> ids;
    std::vector<std::int64_t> multipliers;
    std::vector<std::int32_t> expected;
};

}  // namespace

TEST_CASE("a row of ones", "[engram]") {
    const auto out = Flat(512, 1, 1, 1).forward();
    CHECK(first(out.rstd_x) == 1.0f);
    CHECK(first(out.dot) == 512.0f);
    CHECK(first(out.gate_score) == Approx(0.9914804).epsilon(1e-6));
    CHECK(first_bf16(out.output) == 1.9921875f);
}

TEST_CASE("a row of zeros has the gate 0.50025, and a small dot keeps its sign", "[engram][C26]") {
    const Flat zero(512, 1, 0, 1);
    const auto out = zero.forward();
    CHECK(first(out.gate_score) == Approx(1 / (1 + std::exp(-1e-3))).epsilon(1e-7));
    CHECK(first(out.gate_score) == Approx(0.50025).epsilon(1e-6));
    const auto g = zero.backward(out);
    CHECK(first_bf16(g.grad_hidden_states) == 0.5f);  // the residual's share alone
    CHECK(values_of<std::uint16_t>(g.grad_k) == Bf16(512, 0));
    CHECK(first_bf16(g.grad_v) == 0.25f);
    CHECK(values_of<float>(g.grad_w_partial) == std::vector<float>(3 * 512, 0.0f));
    for (const float sign : {1.0f, -1.0f}) {  // the dot product is ±1e-9; norms are 1, so the clamp decides
        const auto tiny = Flat(512, 1, 1, 1, sign * 1e-9f / 512).forward();
        CHECK(first(tiny.dot) == Approx(sign * 1e-9).epsilon(1e-5));
        CHECK(first(tiny.gate_score) == Approx(1 / (1 + std::exp(-sign * 1e-3))).epsilon(1e-7));
    }
}

TEST_CASE("gradients of rows around the clamp are finite", "[engram][C26]") {
    for (const float w : {0.0f, 1e-12f, -1e-12f, 4.4e-8f, -4.5e-8f, 1e-3f}) {
        const Flat row(512, 1, 1, 1, w);
        const auto g = row.backward(row.forward());
        for (const Tensor& t : {g.grad_hidden_states, g.grad_k, g.grad_v})
            for (const std::uint16_t v : values_of<std::uint16_t>(t)) CHECK(std::isfinite(reference::bf16_value(v)));
        for (const float v : values_of<float>(g.grad_w_partial)) CHECK(std::isfinite(v));
    }
}

TEST_CASE("eps stands inside the root", "[engram]") {
    engram::GateOptions o;
    o.eps = 0.25f;
    CHECK(first(Flat(64, 0, 1, 1).forward(o).rstd_x) == 2.0f);
    CHECK(first(Flat(64, 0, 1, 1).forward().rstd_x) == Approx(1e10).epsilon(1e-6));
}

TEST_CASE("NaN reaches the whole row, and no other", "[engram]") {
    Flat two(64, 1, 1, 1);
    two.x.resize(128, reference::bf16_nearest(1));
    two.k.resize(128, reference::bf16_nearest(1));
    two.w.resize(128, 1.0f);
    two.x[5] = 0x7FC0;
    const auto out = engram::gate_forward(host.stream(), {view(two.x, bf16, {1, 2, 64}), view(two.k, bf16, {1, 2, 64}),
                                                          view(two.v, bf16, {1, 64}), view(two.w, f32, {2, 64})});
    const auto values = values_of<std::uint16_t>(out.output);
    for (std::size_t i = 0; i < 128; ++i) CHECK(std::isnan(reference::bf16_value(values[i])) == (i < 64));
    CHECK(std::isnan(out.gate_score.as<const float>()[0]));
}

TEST_CASE("no tokens: empty outputs, zero partial gradients", "[engram]") {
    const std::vector<float> w(8, 1.0f);
    const auto none = [](const Shape& s, Element e = bf16) {
        return TensorView::of(host, static_cast<void*>(nullptr), e, s);
    };
    const engram::GateInputs in{none({0, 2, 4}), none({0, 2, 4}), none({0, 4}), view(w, f32, {2, 4})};
    const auto out = engram::gate_forward(host.stream(), in);
    CHECK(out.output.extents() == Shape{0, 2, 4});
    CHECK(out.dot.extents() == Shape{0, 2});
    const TensorView scores = none({0, 2}, f32);
    const auto g =
        engram::gate_backward(host.stream(), {none({0, 2, 4}), in, scores, scores, scores, scores}, {1e-6f, 5});
    CHECK(g.grad_v.extents() == Shape{0, 4});
    CHECK(values_of<float>(g.grad_w_partial) == std::vector<float>(40, 0.0f));
}

TEST_CASE("hash: the specification's values, with products that wrap and hashes below 0", "[engram][C28]") {
    const std::vector<std::int32_t> sizes{100003, 200003, 300007, 400009}, offsets{0, 100003, 300006, 600013};
    const HashCase cases[] = {
        {{12345, 678, 90}, {31337, 99991, 7}, {53097, 157885, 454834, 855109}},
        {{0, 0, 0}, {31337, 99991, 7}, {0, 100003, 300006, 600013}},
        {{-1, 5, 7}, {31337, 99991, 7}, {85302, 185296, 385289, 885300}},
        {{99999, 99998, 99997},
         {static_cast<std::int64_t>(0x9E3779B97F4A7C15), 0x5851F42D4C957F2D, 0x14057B7EF767814F},
         {89004, 113169, 534692, 702409}},
        {{2147483647, std::numeric_limits<std::int32_t>::min(), 1},
         {std::numeric_limits<std::int64_t>::max(), 3, 5},
         {82480, 152311, 588073, 697069}},
    };
    for (const HashCase& c : cases)
        CHECK(values_of<std::int32_t>(engram::hash(
                  host.stream(), {view(c.ids, i32, {1, 3}), view(c.multipliers, i64, {1, 3}),
                                  view(sizes, i32, {1, 2, 2}), view(offsets, i32, {1, 4})})) == c.expected);
}

TEST_CASE("hash: a table without rows is told", "[engram]") {
    const std::vector<std::int32_t> ids{3, 4}, sizes{7, 0}, offsets{0, 7};
    const std::vector<std::int64_t> multipliers{1, 1};
    check_refusal(
        [&] {
            engram::hash(host.stream(), {view(ids, i32, {1, 2}), view(multipliers, i64, {1, 2}),
                                         view(sizes, i32, {1, 1, 2}), view(offsets, i32, {1, 2})});
        },
        "vocab_sizes");
}

TEST_CASE("every number of partial rows gives the same sum", "[engram][C27]") {
    const Bf16 ones(16, reference::bf16_nearest(1)), twos(16, reference::bf16_nearest(2));
    for (const std::int64_t rows : {1, 78, 114, 131, 132, 148}) {
        const std::vector<float> partial(static_cast<std::size_t>(16 * rows), 0.5f);
        const Tensor hidden = Tensor::zeros(host, f32, {2, 8}), embed = Tensor::zeros(host, f32, {2, 8});
        engram::grad_w_reduce(host.stream(), view(partial, f32, {rows, 2, 8}), view(ones, bf16, {2, 8}),
                              view(twos, bf16, {2, 8}), {hidden, embed});
        engram::grad_w_reduce(host.stream(), view(partial, f32, {rows, 2, 8}), view(ones, bf16, {2, 8}),
                              view(twos, bf16, {2, 8}), {hidden, embed});  // it adds
        CHECK(values_of<float>(hidden) == std::vector<float>(16, 2.0f * static_cast<float>(rows)));
        CHECK(values_of<float>(embed) == std::vector<float>(16, static_cast<float>(rows)));
    }
}

TEST_CASE("wrong Engram arguments are refused with a sentence", "[engram]") {
    const Stream stream = host.stream();
    const Flat good(64, 1, 1, 1);
    const auto forward = [&](const engram::GateInputs& in, const engram::GateOptions& o = {}) {
        engram::gate_forward(stream, in, o);
    };
    engram::GateInputs in = good.inputs();
    in.v = view(good.v, bf16, {1, 32});
    check_refusal([&] { forward(in); }, "v has extents [1, 32]");
    in = good.inputs();
    in.k.strides = {64, 64, 2};
    check_refusal([&] { forward(in); }, "k has strides");
    in = good.inputs();
    in.weight_fused = view(good.w, f32, {2, 32});
    check_refusal([&] { forward(in); }, "weight_fused");
    in = good.inputs();
    in.hidden_states.element = f16;
    check_refusal([&] { forward(in); }, "hidden_states is f16");
    engram::GateOptions o;
    o.eps = -1.0f;
    check_refusal([&] { forward(good.inputs(), o); }, "eps is -1");
    o = {};
    o.clamp_value = std::numeric_limits<float>::quiet_NaN();
    check_refusal([&] { forward(good.inputs(), o); }, "clamp_value");
    const auto saved = good.forward();
    const auto backward = [&](const TensorView& dot, const engram::BackwardOptions& options) {
        engram::gate_backward(
            stream, {view(good.go, bf16, {1, 1, 64}), good.inputs(), dot, saved.gate_score, saved.rstd_x, saved.rstd_k},
            options);
    };
    check_refusal([&] { backward(saved.output, {}); }, "dot is bf16");
    check_refusal([&] { backward(saved.dot, {1e-6f, -1}); }, "blocks is -1");
    const Tensor gradient = Tensor::zeros(host, f32, {1, 64});
    const std::vector<float> partial(64);
    const auto reduce = [&](const TensorView& p, const engram::WeightGradients& g) {
        engram::grad_w_reduce(stream, p, view(good.v, bf16, {1, 64}), view(good.v, bf16, {1, 64}), g);
    };
    check_refusal([&] { reduce(view(partial, f32, {1, 1, 64}), {gradient, gradient}); }, "overlap");
    check_refusal([&] { reduce(view(partial, f32, {0, 1, 64}), {gradient, gradient}); }, "at least one row");
    check_refusal([&] { engram::fused_weight(stream, view(good.v, bf16, {1, 64}), view(good.v, bf16, {2, 32})); },
                  "weight_embed");
    const std::vector<std::int32_t> ids(2);
    check_refusal(
        [&] {
            engram::hash(stream, {view(ids, i32, {2, 1}), view(ids, i32, {1, 1}), view(ids, i32, {1, 1, 1}),
                                  view(ids, i32, {1, 1})});
        },
        "2 columns");
}
