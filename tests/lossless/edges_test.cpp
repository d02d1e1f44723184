#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <tessera/quant.hpp>
#include <tessera/runtime.hpp>
#include <vector>

#include "dsl/base/error.hpp"
#include "tests/support/reference/formats.hpp"

// Values worked out by hand, what is reported, and what is refused.

using namespace tessera;
using quant::LosslessOptions;
using quant::QuantizedView;
using quant::ScaleLayout;

namespace {

const Device host = Device::host();

float power(int biased) { return std::bit_cast<float>(static_cast<std::uint32_t>(biased) << 23); }

/// Rows of 32 codes under two FP32 scales each.
struct Pairs {
    std::vector<std::uint8_t> codes;
    std::vector<float> scales;

    QuantizedView view() const {
        const auto rows = static_cast<std::int64_t>(scales.size() / 2);
        return {TensorView::of(host, static_cast<const void*>(codes.data()), e2m1, {rows, 32}),
                TensorView::of(host, static_cast<const void*>(scales.data()), f32, {rows, 2}), ScaleLayout::row_major,
                1, 16};
    }
    /// All codes, from 0 to 15.
    void add_half(float scale) {
        for (int i = 0; i < 16; i += 2) codes.push_back(static_cast<std::uint8_t>(i | (i + 1) << 4));
        scales.push_back(scale);
    }
    void add_zeros(float scale) {
        for (int i = 0; i < 8; ++i) codes.push_back(i % 2 == 0 ? 0x00 : 0x88);
        scales.push_back(scale);
    }
};

constexpr LosslessOptions by_rows{1, 32, ScaleLayout::row_major};

std::string said(const QuantizedView& x, const LosslessOptions& o = by_rows) {
    try {
        quant::per_block_cast_lossless(host.stream(), x, o);
    } catch (const UsageError& error) {
        return error.what();
    }
    return "";
}

}  // namespace

TEST_CASE("every code keeps its value at every distance from the largest scale", "[quant]") {
    constexpr double magnitudes[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
    for (const int top : {12, 100, 254}) {
        Pairs x;
        for (int distance = 0; distance <= 11; ++distance) x.add_half(power(top)), x.add_half(power(top - distance));
        const quant::Quantized q = quant::per_block_cast_lossless(host.stream(), x.view(), by_rows);
        for (int row = 0; row < 12; ++row) {
            const float sf = q.sf.as<float>()[row];
            CHECK(sf == power(top - 6));
            for (int i = 0; i < 32; ++i) {
                const double scale = power(i < 16 ? top : top - row);
                const std::uint8_t code = q.data.as<std::uint8_t>()[row * 32 + i];
                CHECK(reference::e4m3_value(code) * static_cast<double>(sf) ==
                      magnitudes[i % 8] * scale * (i % 16 < 8 ? 1 : -1));
                CHECK((code >> 7) == (i % 16 >= 8));
            }
        }
    }
}

TEST_CASE("a block of zeros may have any scale beside others, and its signs stay", "[quant]") {
    for (const int least : {0, 1, 87, 111}) {
        Pairs x;
        x.add_half(power(100)), x.add_zeros(power(least));
        const quant::Quantized q = quant::per_block_cast_lossless(host.stream(), x.view(), by_rows);
        CHECK(q.sf.as<float>()[0] == power(std::max(100, least) - 6));
        for (int i = 16; i < 32; ++i) CHECK(q.data.as<std::uint8_t>()[i] == (i / 2 % 2 == 0 ? 0x00 : 0x80));
    }
    Pairs larger;
    larger.add_half(power(100)), larger.add_zeros(power(112));
    CHECK_THAT(said(larger.view()), Catch::Contains("x_sf[0, 0]"));  // a scale counts, whatever it scales
    Pairs zeros;
    zeros.add_zeros(power(1)), zeros.add_zeros(power(0));
    const quant::Quantized q = quant::per_block_cast_lossless(host.stream(), zeros.view(), by_rows);
    CHECK(q.sf.as<float>()[0] == 0.0f);
}

TEST_CASE("scales that would lose something are told", "[quant]") {
    const auto with = [](float first, float second) {
        Pairs x;
        x.add_half(1.0f), x.add_half(1.0f);
        x.add_half(first), x.add_half(second);
        return said(x.view());
    };
    CHECK(with(1.0f, 0x1p-11f) == "");
    CHECK_THAT(with(1.0f, 0x1p-12f),
               Catch::Contains("kernel per_block_cast_lossless: x_sf[1, 1] is 0.00024414062, but a scale is at least "
                               "2^-11 times the largest one of its output block"));
    CHECK_THAT(with(1.5f, 1.0f), Catch::Contains("x_sf[1, 0] is 1.5, but a scale is a positive power of two"));
    CHECK_THAT(with(1.0f, -1.0f), Catch::Contains("x_sf[1, 1] is -1.0, but a scale is a positive power of two"));
    CHECK_THAT(with(0.0f, 1.0f), Catch::Contains("x_sf[1, 0] is 0.0, but a scale is a positive power of two"));
    CHECK_THAT(with(power(255), 1.0f), Catch::Contains("x_sf[1, 0] is inf, but a scale is a positive power of two"));
    CHECK(with(0x1p-120f, 0x1p-125f) == "");
    CHECK_THAT(with(0x1p-121f, 0x1p-125f),
               Catch::Contains("x_sf[1, 0] is 3.76") &&
                   Catch::Contains("the largest scale of an output block is at least 2^-120"));
}

TEST_CASE("the lossless cast refuses what does not fit, naming it", "[quant]") {
    Pairs x;
    x.add_half(1.0f), x.add_half(1.0f);
    const QuantizedView good = x.view();
    CHECK(said(good) == "");
    QuantizedView other = good;
    other.block_columns = 24;
    CHECK_THAT(said(other), Catch::Contains("blocks of 1 × 24") && Catch::Contains("powers of two"));
    CHECK_THAT(said(good, {1, 8}), Catch::Contains("blocks of 1 × 16 become blocks of 1 × 8"));
    CHECK_THAT(said(good, {0, 32}), Catch::Contains("blocks of 0 × 32"));
    CHECK_THAT(said(good, {1, std::int64_t{1} << 40}), Catch::Contains("at most 2^30"));
    other = good;
    other.data.element = e4m3;
    CHECK_THAT(said(other), Catch::Contains("x is e4m3; this cast takes e2m1"));
    other = good;
    other.sf.extents = {1, 3};
    CHECK_THAT(said(other), Catch::Contains("x_sf"));
    const Tensor data = Tensor::empty(host, e2m1, {1, 32}), sf = Tensor::empty(host, f32, {1, 1});
    CHECK_THROWS_WITH(quant::per_block_cast_lossless(host.stream(), good, data, sf, by_rows),
                      Catch::Contains("data is e2m1"));
}

TEST_CASE("the lossless cast takes no rows", "[quant]") {
    const Tensor data = Tensor::empty(host, e2m1, {0, 32}), sf = Tensor::empty(host, f32, {0, 2});
    const quant::Quantized q =
        quant::per_block_cast_lossless(host.stream(), {data, sf, ScaleLayout::row_major, 1, 16}, {32, 32});
    CHECK(q.data.extents() == Shape{0, 32});
    CHECK(q.sf.extents() == Shape{0, 1});
}
