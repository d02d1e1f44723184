#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <tessera/dsl.hpp>
#include <tessera/swiglu.hpp>
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
TensorView writable(std::vector<std::int64_t>& values) { return TensorView::of(host, values.data(), i64, {3}); }

template <class T>
std::vector<T> values_of(const Tensor& t) {
    return {t.as<const T>(), t.as<const T>() + t.count()};
}

template <class Call>
void check_refusal(Call&& call, const std::string& word) {
    try {
        call();
        FAIL("nothing was refused");
    } catch (const UsageError& error) {
        CHECK_THAT(error.what(), Catch::Contains(word, Catch::CaseSensitive::No));
    }
}

/// One row of 16 channels whose gates and linear values are the same everywhere.
std::vector<float> row(float gate, float linear) {
    std::vector<float> x(16, gate);
    x.resize(32, linear);
    return x;
}

swiglu::ForwardOptions one_group(std::optional<float> clamp = {}) {
    swiglu::ForwardOptions o;
    o.num_per_channels = 16;
    o.swiglu_clamp_value = clamp;
    return o;
}

/// Inputs of a backward call with one row of 16 channels.
struct OneRow {
    std::vector<std::uint8_t> x;
    std::vector<float> x_sf{1.0f, 1.0f};
    std::vector<std::uint16_t> grad;
    std::vector<float> weight{0.5f, 3.0f};
    std::vector<std::int32_t> position{0}, row_of{0, -1};

    OneRow(float gate, float linear, float g) {
        x.assign(16, reference::e4m3_nearest(gate));
        x.resize(32, reference::e4m3_nearest(linear));
        grad.assign(16, reference::bf16_nearest(g));
    }
    swiglu::BackwardOutputs<Tensor> run(std::optional<float> clamp = {}) const {
        const swiglu::BackwardInputs in{view(x, e4m3, {1, 32}),    view(x_sf, f32, {1, 2}),  view(grad, bf16, {1, 16}),
                                        view(weight, f32, {2, 1}), view(position, i32, {1}), view(row_of, i32, {2, 1})};
        return swiglu::backward_and_per_token_cast(host.stream(), in, {16, false, clamp});
    }
};

}  // namespace

TEST_CASE("a gate of zero gives zeros with the linear value's sign", "[swiglu]") {
    const Stream stream = host.stream();
    for (const float linear : {2.0f, -2.0f}) {
        const std::vector<float> x = row(0.0f, linear);
        const auto q = swiglu::forward_and_per_token_cast(stream, view(x, f32, {1, 32}), one_group());
        CHECK(values_of<std::uint8_t>(q.data) == std::vector<std::uint8_t>(16, linear < 0 ? 0x80 : 0x00));
        CHECK(values_of<float>(q.sf) == std::vector<float>{1e-4f / 448.0f});
    }
}

TEST_CASE("clamps count strictly, before the cut, and add to what is there", "[swiglu]") {
    const Stream stream = host.stream();
    std::vector<float> x = row(0.5f, -0.5f);  // exactly at the clamp: not counted
    x[0] = x[1] = 0.75f;
    x[16] = x[17] = x[18] = 9.0f;
    x[31] = -0.625f;
    std::vector<std::int64_t> count{10, 20, 30};
    swiglu::ForwardMaps maps;
    maps.clamped_count = writable(count);
    const auto q = swiglu::forward_and_per_token_cast(stream, view(x, f32, {1, 32}), one_group(0.5f), maps);
    CHECK(count == std::vector<std::int64_t>{12, 23, 31});
    // All gates are 0.5 after the cut, all linear values ±0.5: one magnitude, the largest code.
    std::vector<std::uint8_t> expected(16, 0xFE);
    expected[0] = expected[1] = expected[2] = 0x7E;
    CHECK(values_of<std::uint8_t>(q.data) == expected);
}

TEST_CASE("skipped rows are neither counted nor written; unknown weights are 0", "[swiglu]") {
    const Stream stream = host.stream();
    std::vector<float> x;
    for (int r = 0; r < 3; ++r)
        for (const float v : row(1.0f, 4.0f)) x.push_back(v);
    const std::vector<std::int32_t> expert{-1, 3, 0}, position{0, -1, 1};
    const std::vector<float> weight{2.0f, -1.0f};
    std::vector<std::int64_t> count{0, 0, 0};
    std::vector<std::uint8_t> codes(48, 0x55);
    std::vector<float> sf(3, 7.0f);
    swiglu::ForwardMaps maps{view(position, i32, {3}), view(weight, f32, {1, 2}), view(expert, i32, {3}),
                             writable(count)};
    swiglu::forward_and_per_token_cast(stream, view(x, f32, {3, 32}), TensorView::of(host, codes.data(), e4m3, {3, 16}),
                                       TensorView::of(host, sf.data(), f32, {3, 1}), one_group(2.0f), maps);
    std::vector<std::uint8_t> expected(16, 0x55);
    expected.resize(32, 0x00);
    expected.resize(48, 0xFE);
    CHECK(codes == expected);
    CHECK(sf[0] == 7.0f);
    CHECK(sf[1] == 1e-4f / 448.0f);
    CHECK(count == std::vector<std::int64_t>{0, 32, 0});
}

TEST_CASE("NaN passes the clamp and becomes the NaN code, alone", "[swiglu]") {
    std::vector<float> x = row(1.0f, 1.0f);
    x[3] = x[16 + 5] = std::numeric_limits<float>::quiet_NaN();
    for (const auto clamp : {std::optional<float>(), std::optional<float>(0.5f)}) {
        const auto q = swiglu::forward_and_per_token_cast(host.stream(), view(x, f32, {1, 32}), one_group(clamp));
        std::vector<std::uint8_t> expected(16, 0x7E);
        expected[3] = expected[5] = 0x7F;
        CHECK(values_of<std::uint8_t>(q.data) == expected);
    }
}

TEST_CASE("warps that divide with bounds and warps that do not give one row", "[swiglu]") {
    // 512 channels: four warps, of which the third meets a gate of −90. NaN and a clamp between two BF16 numbers.
    std::vector<std::uint16_t> x(2 * 512);
    for (std::size_t i = 0; i < 512; ++i) {
        x[i] = reference::bf16_nearest(0.25f * static_cast<float>(i % 7) - 0.5f);
        x[512 + i] = reference::bf16_nearest(i % 5 == 0 ? -1.0f : 0.75f);
    }
    x[300] = reference::bf16_nearest(-90.0f);
    x[7] = 0x7FC0;
    const float c = 0.7505f;
    std::vector<std::int64_t> count{0, 0, 0}, expected_count{0, 0, 0};
    std::vector<float> v(512);
    for (std::size_t i = 0; i < 512; ++i) {
        const float gate = std::bit_cast<float>(std::uint32_t{x[i]} << 16);
        const float linear = std::bit_cast<float>(std::uint32_t{x[512 + i]} << 16);
        expected_count[0] += gate > c, expected_count[1] += linear > c, expected_count[2] += linear < -c;
        const float g = gate > c ? c : gate, l = linear > c ? c : linear < -c ? -c : linear;
        v[i] = g / (1.0f + static_cast<float>(std::exp(-static_cast<double>(g)))) * l;
    }
    swiglu::ForwardOptions o;
    o.swiglu_clamp_value = c;
    o.round_sf = true;
    swiglu::ForwardMaps maps;
    maps.clamped_count = writable(count);
    const auto q = swiglu::forward_and_per_token_cast(host.stream(), view(x, bf16, {1, 1024}), o, maps);
    CHECK(count == expected_count);
    const std::vector<std::uint8_t> codes = values_of<std::uint8_t>(q.data);
    const std::vector<float> sf = values_of<float>(q.sf);
    for (std::size_t i = 0; i < 512; ++i)
        CHECK(codes[i] == (i == 7 ? 0x7F : reference::e4m3_nearest(v[i] / sf[i / 128])));
}

TEST_CASE("large gates of both signs", "[swiglu]") {
    for (const float gate : {-80.0f, -88.5f, -100.0f, -3e38f}) {  // l / (1 + e^(−l)) is tiny or −0
        const std::vector<float> x = row(gate, 1.0f);
        const auto q = swiglu::forward_and_per_token_cast(host.stream(), view(x, f32, {1, 32}), one_group());
        CHECK(values_of<std::uint8_t>(q.data) == std::vector<std::uint8_t>(16, 0x80));
    }
    const std::vector<float> x = row(3e38f, 1.0f);  // 1 + e^(−l) is 1
    const auto q = swiglu::forward_and_per_token_cast(host.stream(), view(x, f32, {1, 32}), one_group());
    CHECK(values_of<std::uint8_t>(q.data) == std::vector<std::uint8_t>(16, 0x7E));
    CHECK(values_of<float>(q.sf)[0] == 3e38f / 448.0f);
}

TEST_CASE("forward of no rows gives empty outputs and leaves the counters", "[swiglu]") {
    const Stream stream = host.stream();
    std::vector<std::int64_t> count{1, 2, 3};
    swiglu::ForwardMaps maps;
    maps.clamped_count = writable(count);
    swiglu::ForwardOptions o;
    o.swiglu_clamp_value = 1.0f;
    o.scale_layout = quant::ScaleLayout::packed_ue8m0;
    const TensorView none = TensorView::of(host, static_cast<void*>(nullptr), bf16, {0, 1280});
    const auto q = swiglu::forward_and_per_token_cast(stream, none, o, maps);
    CHECK(q.data.extents() == Shape{0, 640});
    CHECK(q.sf.element() == i32);
    CHECK(q.sf.extents() == Shape{0, 2});
    CHECK(count == std::vector<std::int64_t>{1, 2, 3});
}

TEST_CASE("backward: a value exactly at the clamp keeps its gradient, one beyond it gets +0", "[swiglu]") {
    const auto at = OneRow(0.5f, -0.5f, -1.0f).run(0.5f);
    for (const std::uint16_t v : values_of<std::uint16_t>(at.x_grad)) CHECK((v & 0x7FFF) != 0);
    const auto beyond = OneRow(0.625f, -0.625f, -1.0f).run(0.5f);
    CHECK(values_of<std::uint16_t>(beyond.x_grad) == std::vector<std::uint16_t>(32, 0));
    CHECK(values_of<std::uint8_t>(beyond.x_grad_q) == std::vector<std::uint8_t>(32, 0));
    const auto below = OneRow(-0.625f, 0.25f, -1.0f).run(0.5f);  // the gate has no lower clamp
    CHECK((values_of<std::uint16_t>(below.x_grad)[0] & 0x7FFF) != 0);
}

TEST_CASE("backward: padding rows give zeros with the formulas' signs", "[swiglu]") {
    OneRow padding(2.0f, -3.0f, -1.0f);
    padding.position[0] = -1;
    padding.row_of[0] = -1;
    const auto g = padding.run();
    CHECK(values_of<std::uint16_t>(g.out) == std::vector<std::uint16_t>(16, 0x8000));  // a < 0, times +0
    std::vector<std::uint16_t> expected(16, 0x0000);                                   // (−0 · s) · y
    expected.resize(32, 0x8000);                                                       // (−0 · s) · x
    CHECK(values_of<std::uint16_t>(g.x_grad) == expected);
    CHECK(values_of<float>(g.x_grad_sf) == std::vector<float>(2, 1e-4f / 448.0f));
    CHECK(values_of<float>(g.weight_grad) == std::vector<float>(2, 0.0f));
}

TEST_CASE("backward: the weight's gradient is the dot product with the unweighted activation", "[swiglu]") {
    const auto g = OneRow(2.0f, 1.5f, 0.25f).run();
    const double expected = 16 * 0.25 * 2.0 / (1 + std::exp(-2.0)) * 1.5;
    CHECK(values_of<float>(g.weight_grad)[0] == Approx(expected).epsilon(1e-5));
    CHECK(values_of<float>(g.weight_grad)[1] == 0.0f);  // no row has this slot
}

TEST_CASE("backward of no rows still writes the weights' gradients", "[swiglu]") {
    const std::vector<float> weight(15, 1.0f);
    const std::vector<std::int32_t> row_of(15, -1);
    const auto none = [&](Element e, const Shape& s) {
        return TensorView::of(host, static_cast<void*>(nullptr), e, s);
    };
    const auto g = swiglu::backward_and_per_token_cast(
        host.stream(), {none(e4m3, {0, 512}), none(f32, {0, 4}), none(bf16, {0, 256}), view(weight, f32, {5, 3}),
                        none(i32, {0}), view(row_of, i32, {5, 3})});
    CHECK(g.x_grad_q.extents() == Shape{0, 512});
    CHECK(values_of<float>(g.weight_grad) == std::vector<float>(15, 0.0f));
}

TEST_CASE("backward takes x with more leading axes", "[swiglu]") {
    OneRow r(1.0f, 2.0f, 1.0f);
    const auto flat = r.run();
    const swiglu::BackwardInputs in{view(r.x, e4m3, {1, 1, 32}), view(r.x_sf, f32, {1, 2}),
                                    view(r.grad, bf16, {16}),    view(r.weight, f32, {2, 1}),
                                    view(r.position, i32, {1}),  view(r.row_of, i32, {2, 1})};
    const auto deep = swiglu::backward_and_per_token_cast(host.stream(), in, {16, false, {}});
    CHECK(values_of<std::uint8_t>(deep.x_grad_q) == values_of<std::uint8_t>(flat.x_grad_q));
}

TEST_CASE("wrong swiglu arguments are refused with a sentence", "[swiglu]") {
    const Stream stream = host.stream();
    const std::vector<float> x(4 * 256, 1.0f);
    const TensorView good = view(x, f32, {4, 256});
    const auto forward = [&](const TensorView& in, const swiglu::ForwardOptions& o, const swiglu::ForwardMaps& m = {}) {
        swiglu::forward_and_per_token_cast(stream, in, o, m);
    };
    swiglu::ForwardOptions o;
    check_refusal([&] { forward(view(x, f32, {1, 255}), o); }, "halves");
    check_refusal([&] { forward(view(x, i32, {4, 256}), o); }, "i32");
    o.num_per_channels = 48;
    check_refusal([&] { forward(good, o); }, "48");
    o = {};
    o.swiglu_clamp_value = -1.0f;
    check_refusal([&] { forward(good, o); }, "swiglu_clamp_value");
    o = {};
    o.sf_clamp_min = 0.0f;
    check_refusal([&] { forward(good, o); }, "sf_clamp_min");
    const std::vector<std::int32_t> map(4, 0);
    std::vector<std::int64_t> count(3);
    swiglu::ForwardMaps maps;
    maps.clamped_count = writable(count);
    check_refusal([&] { forward(good, {}, maps); }, "swiglu_clamp_value");
    maps = {};
    maps.pos_to_token_topk = view(map, i32, {4});
    check_refusal([&] { forward(good, {}, maps); }, "topk_weights");
    maps = {};
    maps.pos_to_expert = view(map, i32, {3});
    check_refusal([&] { forward(good, {}, maps); }, "pos_to_expert");
    OneRow r(1.0f, 1.0f, 1.0f);
    r.row_of.push_back(0);
    const swiglu::BackwardInputs in{view(r.x, e4m3, {1, 32}),    view(r.x_sf, f32, {1, 2}),
                                    view(r.grad, bf16, {1, 16}), view(r.weight, f32, {2, 1}),
                                    view(r.position, i32, {1}),  view(r.row_of, i32, {3, 1})};
    check_refusal([&] { swiglu::backward_and_per_token_cast(stream, in, {16, false, {}}); }, "token_topk_to_pos");
    check_refusal([&] { swiglu::backward_and_per_token_cast(stream, in, {128, false, {}}); }, "num_per_channels");
}
