#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <tessera/quant.hpp>

#include "dsl/base/error.hpp"
#include "tests/support/kernels/checks.hpp"
#include "tests/support/reference/formats.hpp"

// Small inputs that tend to fail in other systems.

namespace {

using namespace tessera;
using namespace tessera::test;
using quant::BlockCastOptions;
using quant::CastOptions;
using quant::Quantized;
using quant::ScaleLayout;

const Device host = Device::host();

struct Result {
    std::vector<std::uint8_t> codes;
    std::vector<float> scales;
};

/// One row of FP32 values as a single group.
Result cast_row(const std::vector<float>& values, bool round) {
    const auto n = static_cast<std::int64_t>(values.size());
    CastOptions options;
    options.num_per_channels = n;
    options.round_sf = round;
    const Stream stream = host.stream();
    const Quantized q = quant::per_token_cast(stream, TensorView::of(host, values.data(), f32, {1, n}), options);
    stream.synchronize();
    const auto* codes = q.data.as<std::uint8_t>();
    return {{codes, codes + n}, {q.sf.as<float>()[0]}};
}

std::vector<float> ones(std::size_t n) { return std::vector<float>(n, 1.0f); }

template <class Call>
void check_refusal(Call&& call, const std::string& word) {
    try {
        call();
        FAIL("nothing was refused");
    } catch (const UsageError& error) {
        CHECK_THAT(error.what(), Catch::Contains(word, Catch::CaseSensitive::No));
    }
}

}  // namespace

TEST_CASE("rows of zeros keep their signs and get the smallest scale", "[quant][C1]") {
    for (const float zero : {0.0f, -0.0f}) {
        const Result r = cast_row(std::vector<float>(128, zero), false);
        CHECK(r.codes == std::vector<std::uint8_t>(128, std::signbit(zero) ? 0x80 : 0x00));
        CHECK(r.scales[0] == 1e-4f / 448.0f);
    }
}

TEST_CASE("a power of two stays, the next float above it takes the next scale", "[quant][C2]") {
    for (const int exponent : {10, -10, -20}) {
        const float top = std::ldexp(448.0f, exponent);
        std::vector<float> x(64, top / 3);
        x[5] = top;
        CHECK(cast_row(x, true).scales[0] == std::ldexp(1.0f, std::max(exponent, -22)));
        x[5] = std::nextafter(top, 1e30f);
        CHECK(cast_row(x, true).scales[0] == std::ldexp(1.0f, std::max(exponent + 1, -22)));
    }
}

TEST_CASE("values far below the smallest scale become zeros of their sign", "[quant][C3]") {
    std::vector<float> x;
    for (int i = 0; i < 32; ++i)
        x.push_back((i % 2 == 0 ? 1.0f : -1.0f) * 9e-40f * std::pow(1.42f, static_cast<float>(i)));
    for (const bool round : {false, true}) {
        const Result r = cast_row(x, round);
        CHECK(r.scales[0] == (round ? std::ldexp(1.0f, -22) : 1e-4f / 448.0f));
        for (std::size_t i = 0; i < x.size(); ++i) CHECK(r.codes[i] == (i % 2 == 0 ? 0x00 : 0x80));
    }
}

TEST_CASE("one NaN stays one NaN", "[quant][C5]") {
    std::vector<float> x;
    for (int i = 0; i < 128; ++i) x.push_back(static_cast<float>(i - 60) * 0.37f);
    for (const bool round : {false, true}) {
        x[77] = 0.5f;
        Result expected = cast_row(x, round);
        x[77] = std::numeric_limits<float>::quiet_NaN();
        const Result r = cast_row(x, round);
        expected.codes[77] = 0x7F;
        CHECK(r.codes == expected.codes);
        CHECK(r.scales == expected.scales);
    }
}

TEST_CASE("an infinity never turns a neighbour's sign or makes it NaN", "[quant][C4]") {
    for (const bool round : {false, true}) {
        std::vector<float> x = ones(64);
        x[1] = -1.0f;
        x[9] = std::numeric_limits<float>::infinity();
        const Result r = cast_row(x, round);
        for (std::size_t i = 0; i < x.size(); ++i) {
            if (i == 9) continue;
            CHECK(std::signbit(reference::e4m3_value(r.codes[i])) == std::signbit(x[i]));
            CHECK_FALSE(std::isnan(reference::e4m3_value(r.codes[i])));
        }
    }
}

TEST_CASE("the last value of a long row can carry the scale", "[quant][C39]") {
    std::vector<float> x(7168, 0.25f);
    x.back() = 301.0f;
    CHECK(cast_row(x, false).scales[0] == 301.0f / 448.0f);
    CHECK(cast_row(x, true).scales[0] == 1.0f);
}

TEST_CASE("blocks cut by the edge use only their own rows", "[quant][C8]") {
    for (const auto& [tokens, hidden] :
         {std::pair<std::int64_t, std::int64_t>{129, 192}, {5, 64}, {1, 1}, {127, 129}}) {
        CastCase c{tokens, hidden, hidden, 0, bf16, 128, 128, reference::Scales::column_major, false, 8};
        CHECK(check_per_block_cast(host, c) == "");
    }
}

TEST_CASE("0 tokens give empty outputs of the right shape", "[quant][C10]") {
    const Stream stream = host.stream();
    const TensorView none = TensorView::of(host, static_cast<void*>(nullptr), bf16, {0, 576});
    const Quantized row = quant::per_token_cast(stream, none);
    CHECK(row.data.extents() == Shape{0, 576});
    CHECK(row.sf.extents() == Shape{0, 5});
    CastOptions packed;
    packed.scale_layout = ScaleLayout::packed_ue8m0;
    packed.round_sf = true;
    const Quantized words = quant::per_token_cast(stream, none, packed);
    CHECK(words.sf.element() == i32);
    CHECK(words.sf.extents() == Shape{0, 2});
    const Quantized block = quant::per_block_cast(stream, none);
    CHECK(block.data.extents() == Shape{0, 576});
    CHECK(block.sf.extents() == Shape{0, 5});
}

TEST_CASE("a column slice equals the contiguous matrix", "[quant][C11]") {
    // Row pitch 512, width 256, from column 0, 128 and 3.
    for (const std::int64_t shift : {0, 128, 3})
        for (const Element type : {bf16, f32}) {
            CastCase c{37, 256, 512, shift, type, 1, 128, reference::Scales::row_major, false, 11};
            CHECK(check_per_token_cast(host, c) == "");
            c.block_rows = 128;
            CHECK(check_per_block_cast(host, c) == "");
        }
}

TEST_CASE("rows that all lie in one place, reversed rows and strided columns", "[quant][C11]") {
    const std::vector<float> x(8 * 512, 1.5f);
    const Stream stream = host.stream();
    const auto view = [&](std::int64_t first, const Shape& strides) {
        return TensorView::of(host, static_cast<const void*>(x.data() + first), f32, {8, 256}, strides);
    };
    check_refusal([&] { quant::per_token_cast(stream, view(0, {512, 2})); }, "stride");
    check_refusal([&] { quant::per_block_cast(stream, view(0, {512, 2})); }, "stride");
    // The result or a refusal that names the stride.
    for (const TensorView& odd : {view(0, {0, 1}), view(7 * 512, {-512, 1})}) {
        try {
            const Quantized q = quant::per_token_cast(stream, odd);
            for (int i = 0; i < 8 * 256; ++i) REQUIRE(q.data.as<std::uint8_t>()[i] == 0x7E);
        } catch (const UsageError& error) {
            CHECK_THAT(error.what(), Catch::Contains("stride"));
        }
    }
}

TEST_CASE("wrong arguments are refused with a sentence", "[quant]") {
    const Stream stream = host.stream();
    const std::vector<float> x(4 * 256, 1.0f);
    const TensorView good = TensorView::of(host, static_cast<const void*>(x.data()), f32, {4, 256});
    CastOptions group;
    group.num_per_channels = 48;
    check_refusal([&] { quant::per_token_cast(stream, good, group); }, "48");
    const TensorView flat = TensorView::of(host, static_cast<const void*>(x.data()), f32, {4 * 256});
    check_refusal([&] { quant::per_token_cast(stream, flat); }, "rank");
    const TensorView whole = TensorView::of(host, static_cast<const void*>(x.data()), i32, {4, 256});
    check_refusal([&] { quant::per_token_cast(stream, whole); }, "i32");
    check_refusal([&] { quant::per_block_cast(stream, whole); }, "i32");
    // Block sides so large that extents added to them would overflow: no scales would seem enough.
    quant::QuantizedView codes{Tensor::zeros(stream, e4m3, {4, 256}), Tensor::zeros(stream, f32, {4, 0})};
    for (std::int64_t side : {std::int64_t{0}, (std::int64_t{1} << 40) + 1, INT64_MAX}) {
        codes.block_columns = side;
        check_refusal([&] { quant::cast_back(stream, codes); }, "each side is from 1 to 2^40");
        check_refusal([&] { quant::per_token_cast(stream, codes); }, "each side is from 1 to 2^40");
    }
}
