#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <limits>
#include <sys/mman.h>
#include <unistd.h>

#include "dsl/base/error.hpp"
#include "tests/support/inputs.hpp"
#include "tests/support/kernels/checks.hpp"
#include "tests/support/kernels/scale_memory.hpp"
#include "tests/support/reference/formats.hpp"

// Small or odd inputs that tend to fail in other systems, for the packed formats and for quantized input.

namespace {

using namespace tessera;
using namespace tessera::test;
using quant::CastOptions;
using quant::Quantized;
using quant::QuantizedView;
using quant::ScaleLayout;
using reference::Format;

const Device host = Device::host();
constexpr float infinity = std::numeric_limits<float>::infinity();

struct Row {
    std::vector<std::uint16_t> codes;
    float scale;
};

/// One row of FP32 values as a single group.
Row cast_row(const std::vector<float>& values, Format format, bool round, bool round_subnormals = false) {
    const auto n = static_cast<std::int64_t>(values.size());
    CastOptions options{element_of(format), n};
    options.round_sf = round;
    options.round_subnormals = round_subnormals;
    const Stream stream = host.stream();
    const Quantized q = quant::per_token_cast(stream, TensorView::of(host, values.data(), f32, {1, n}), options);
    stream.synchronize();
    const auto* first = q.data.as<std::uint8_t>();
    return {reference::unpacked(format, {first, first + q.data.bytes()}), q.sf.as<float>()[0]};
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

/// Address space without memory behind it until it is touched; one page that must not be follows.
class Mapping {
public:
    explicit Mapping(std::size_t bytes) : bytes_((bytes + page() - 1) / page() * page()) {
        base_ =
            mmap(nullptr, bytes_ + page(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        REQUIRE(base_ != MAP_FAILED);
        REQUIRE(mprotect(static_cast<char*>(base_) + bytes_, page(), PROT_NONE) == 0);
    }
    Mapping(const Mapping&) = delete;
    ~Mapping() { munmap(base_, bytes_ + page()); }

    void* begin() const { return base_; }
    /// Where `bytes` bytes end at the forbidden page.
    void* last(std::size_t bytes) const { return static_cast<char*>(base_) + bytes_ - bytes; }

private:
    static std::size_t page() { return static_cast<std::size_t>(sysconf(_SC_PAGESIZE)); }
    void* base_;
    std::size_t bytes_;
};

}  // namespace

TEST_CASE("zeros in narrow formats keep their signs and get the smallest scale", "[quant][C1]") {
    for (const float zero : {0.0f, -0.0f}) {
        const bool negative = std::signbit(zero);
        const Row fp4 = cast_row(std::vector<float>(64, zero), Format::e2m1, false);
        CHECK(fp4.codes == std::vector<std::uint16_t>(64, negative ? 8 : 0));
        CHECK(fp4.scale == 0x1p-126f);
        const Row wide = cast_row(std::vector<float>(64, zero), Format::e5m6, false);
        CHECK(wide.codes == std::vector<std::uint16_t>(64, negative ? 0x800 : 0));
        CHECK(wide.scale == 1e-4f / 65024.0f);
    }
}

TEST_CASE("an infinity or a NaN in narrow formats", "[quant][C4][C5]") {
    for (const bool round : {false, true})
        for (const Format format : {Format::e2m1, Format::e5m6}) {
            const unsigned sign = 1u << (reference::bits_of(format) - 1), of_nan = format == Format::e2m1 ? 7 : 0x800;
            std::vector<float> x(64, 1.0f);
            x[1] = -1.0f;
            const Row expected = cast_row(x, format, round);
            x[9] = infinity;
            const Row infinite = cast_row(x, format, round);
            CHECK(infinite.scale == infinity);
            for (std::size_t i = 0; i < x.size(); ++i)
                CHECK(infinite.codes[i] == (i == 9 ? of_nan : i == 1 ? sign : 0));
            x[9] = std::numeric_limits<float>::quiet_NaN();
            const Row hole = cast_row(x, format, round);
            CHECK(hole.scale == expected.scale);
            for (std::size_t i = 0; i < x.size(); ++i) CHECK(hole.codes[i] == (i == 9 ? of_nan : expected.codes[i]));
        }
}

TEST_CASE("E5M6 below 2^-14 as its inventors do, and to nearest even under the option", "[quant][C12]") {
    std::vector<float> x(8, 0.0f);
    const float units[4] = {0.75f, 1.5f, 3.5f, 62.75f};
    for (std::size_t i = 0; i < 4; ++i) x[i] = std::ldexp(units[i], -20), x[4 + i] = i < 3 ? -x[i] : 65024.0f;
    CHECK(cast_row(x, Format::e5m6, false).codes ==
          std::vector<std::uint16_t>{0, 1, 3, 62, 0x800, 0x801, 0x803, 0x7BF});
    CHECK(cast_row(x, Format::e5m6, false, true).codes ==
          std::vector<std::uint16_t>{1, 2, 4, 63, 0x801, 0x802, 0x804, 0x7BF});
}

TEST_CASE("the last value of a long row carries the scale of every format", "[quant][C39]") {
    for (const Format format : {Format::e4m3, Format::e2m1, Format::e5m6})
        for (const Element type : {bf16, f32})
            for (const bool round : {false, true}) {
                std::vector<float> wide(7168, 0.25f);
                wide.back() = 301.0f;
                std::vector<std::uint16_t> narrow;
                for (const float v : wide) narrow.push_back(reference::bf16_nearest(v));
                const void* data = type == bf16 ? static_cast<const void*>(narrow.data()) : wide.data();
                const Stream stream = host.stream();
                const reference::QuantizeRule rule{1, 7168, reference::Scales::row_major, round, format};
                const auto expected = reference::quantize({data, type == bf16, 1, 7168, 7168}, rule);
                CastOptions options{element_of(format), 7168};
                options.round_sf = round;
                const Quantized q = quant::per_token_cast(stream, TensorView::of(host, data, type, {1, 7168}), options);
                CHECK(check_returned(stream, q, expected, 1, 7168, rule) == "");
                const float last = type == bf16 ? 300.0f : 301.0f;  // 301 needs nine bits
                if (!round) CHECK(q.sf.as<float>()[0] == last / static_cast<float>(reference::largest_of(format)));
            }
}

TEST_CASE("casts and casts back between guard bands", "[quant][C40]") {
    using reference::Scales;
    for (const std::int64_t tokens : {1, 31, 129})
        for (const std::int64_t hidden : {576, 640, 7168})
            for (const Scales scales : {Scales::row_major, Scales::column_major, Scales::packed_ue8m0}) {
                const bool packed = scales == Scales::packed_ue8m0;
                CastCase c{tokens, hidden, hidden, 0, bf16, 1, 32, scales, packed, 40, Format::e2m1};
                CHECK(check_per_token_cast(host, c) == "");
                c.format = Format::e5m6, c.block_columns = hidden;
                CHECK(check_per_token_cast(host, c) == "");
                for (const Format format : {Format::e4m3, Format::e2m1, Format::e5m6}) {
                    const QuantizedCase in{tokens, hidden, 0, {1, 128, scales, packed, format}, 0, 40};
                    CHECK(check_cast_back(host, {in, bf16, 0}) == "");
                }
            }
}

TEST_CASE("tensors that end where memory ends", "[quant][C40]") {
    const std::int64_t tokens = 31, hidden = 576;
    const Stream stream = host.stream();
    for (const Format format : {Format::e4m3, Format::e2m1, Format::e5m6}) {
        const std::int64_t group = format == Format::e5m6 ? hidden : 128;
        const reference::QuantizeRule rule{1, group, reference::Scales::row_major, false, format};
        const auto values = hard_values(bf16, tokens * hidden, 7, format);
        const auto expected = reference::quantize({values.data(), true, tokens, hidden, hidden}, rule);
        const Mapping in(values.size()), out(expected.codes.size()), scales(expected.scales.size() * 4);
        std::memcpy(in.last(values.size()), values.data(), values.size());
        const TensorView x = TensorView::of(host, in.last(values.size()), bf16, {tokens, hidden});
        const TensorView data =
            TensorView::of(host, out.last(expected.codes.size()), element_of(format), {tokens, hidden});
        const TensorView sf =
            TensorView::of(host, scales.last(expected.scales.size() * 4), f32, {tokens, (hidden + group - 1) / group});
        quant::per_token_cast(stream, x, data, sf, {element_of(format), group});
        stream.synchronize();
        CHECK(std::memcmp(data.data, expected.codes.data(), expected.codes.size()) == 0);
        CHECK(std::memcmp(sf.data, expected.scales.data(), expected.scales.size() * 4) == 0);

        const Mapping back(values.size() * 2);
        const TensorView wide = TensorView::of(host, back.last(values.size() * 2), f32, {tokens, hidden});
        quant::cast_back(stream, {data, sf, ScaleLayout::row_major, 1, group}, wide);
        stream.synchronize();
        const auto exact = reference::cast_back(expected, tokens, hidden, rule);
        CHECK(std::memcmp(wide.data, exact.data(), exact.size() * 4) == 0);
    }
}

TEST_CASE("rows further apart than 2^31 elements equal the same rows alone", "[quant][C9]") {
    const std::int64_t pitch = (std::int64_t{1} << 31) + 32, hidden = 256;
    const Mapping memory(static_cast<std::size_t>(2 * pitch + hidden) * 2);
    std::vector<std::uint8_t> rows;
    for (std::int64_t t = 0; t < 3; ++t) {
        const auto values = hard_values(bf16, hidden, static_cast<std::uint64_t>(t + 1));
        std::memcpy(static_cast<char*>(memory.begin()) + t * pitch * 2, values.data(), values.size());
        rows.insert(rows.end(), values.begin(), values.end());
    }
    const Stream stream = host.stream();
    const TensorView far = TensorView::of(host, memory.begin(), bf16, {3, hidden}, {pitch, 1});
    for (const Format format : {Format::e4m3, Format::e2m1, Format::e5m6}) {
        const std::int64_t group = format == Format::e5m6 ? hidden : 32;
        const reference::QuantizeRule rule{1, group, reference::Scales::row_major, false, format};
        const auto expected = reference::quantize({rows.data(), true, 3, hidden, hidden}, rule);
        const Quantized q = quant::per_token_cast(stream, far, {element_of(format), group});
        CHECK(check_returned(stream, q, expected, 3, hidden, rule) == "");
    }
}

TEST_CASE("scales in columns further apart than 2^31 words", "[quant][C9]") {
    const std::int64_t pitch = (std::int64_t{1} << 31) + 4, tokens = 5, hidden = 128;
    const Mapping memory(static_cast<std::size_t>(3 * pitch + 8) * 4);
    const auto values = hard_values(f32, tokens * hidden, 3, Format::e2m1);
    const reference::QuantizeRule rule{1, 32, reference::Scales::column_major, false, Format::e2m1};
    const auto expected = reference::quantize({values.data(), false, tokens, hidden, hidden}, rule);
    const Stream stream = host.stream();
    const Tensor data = Tensor::empty(stream, e2m1, {tokens, hidden});
    const TensorView sf = TensorView::of(host, memory.begin(), f32, {tokens, 4}, {1, pitch});
    CastOptions options{e2m1, 32, ScaleLayout::column_major};
    quant::per_token_cast(stream, TensorView::of(host, values.data(), f32, {tokens, hidden}), data, sf, options);
    stream.synchronize();
    CHECK(std::memcmp(data.data(), expected.codes.data(), expected.codes.size()) == 0);
    for (std::int64_t k = 0; k < 4; ++k)
        CHECK(std::memcmp(static_cast<char*>(memory.begin()) + k * pitch * 4,
                          &expected.scales[8 * static_cast<std::size_t>(k)], 32) == 0);
    const Tensor back = quant::cast_back(stream, {data, sf, ScaleLayout::column_major, 1, 32}, f32);
    const auto exact = reference::cast_back(expected, tokens, hidden, rule);
    CHECK(std::memcmp(back.data(), exact.data(), exact.size() * 4) == 0);
}

TEST_CASE("0 tokens of narrow formats", "[quant][C10]") {
    const Stream stream = host.stream();
    const TensorView none = TensorView::of(host, static_cast<void*>(nullptr), bf16, {0, 576});
    for (const Element format : {e2m1, e5m6}) {
        const Quantized q = quant::per_token_cast(stream, none, {format, 576, ScaleLayout::packed_ue8m0});
        CHECK(q.data.extents() == Shape{0, 576});
        CHECK(q.sf.extents() == Shape{0, 1});
        const Tensor back = quant::cast_back(stream, {q.data, q.sf, ScaleLayout::packed_ue8m0, 1, 576});
        CHECK(back.extents() == Shape{0, 576});
    }
    CHECK(quant::per_token_cast_with_sf_only(stream, none).extents() == Shape{0, 5});
    const TensorView sf = TensorView::of(host, static_cast<void*>(nullptr), f32, {0, 5});
    CHECK(quant::per_token_cast_with_precomputed_sf(stream, none, sf).extents() == Shape{0, 576});
}

TEST_CASE("a group of zeros under a large scale follows the combined factor", "[quant]") {
    // 4 · 2¹²⁶ overflows, 2 · 2¹²⁶ does not.
    const std::vector<std::uint8_t> zeros(32, 0);
    const std::vector<float> scales = {2.0f, 4.0f};
    const Stream stream = host.stream();
    const QuantizedView x{TensorView::of(host, zeros.data(), e4m3, {2, 16}),
                          TensorView::of(host, scales.data(), f32, {2, 1}), ScaleLayout::row_major, 1, 16};
    const Quantized q = quant::per_token_cast(stream, x, {e2m1, 16});
    for (int i = 0; i < 16; ++i) CHECK(int(q.data.as<std::uint8_t>()[i]) == (i < 8 ? 0x00 : 0x77));
    CHECK(q.sf.as<float>()[0] == 0x1p-126f);
    CHECK(q.sf.as<float>()[1] == 0x1p-126f);
}

TEST_CASE("wrong arguments about packed and quantized data are refused with a sentence", "[quant]") {
    const Stream stream = host.stream();
    const std::vector<float> x(4 * 256, 1.0f);
    const std::vector<std::uint8_t> bytes(4 * 256, 0);
    const auto plain = [&](std::int64_t columns) { return TensorView::of(host, x.data(), f32, {4, columns}); };
    check_refusal([&] { quant::per_token_cast(stream, plain(33), {e2m1, 32}); }, "multiple of 2");
    check_refusal([&] { quant::per_token_cast(stream, plain(36), {e5m6, 36}); }, "multiple of 8");
    check_refusal([&] { quant::per_token_cast(stream, plain(256), {e5m6, 128}); }, "256 channels");
    check_refusal([&] { quant::per_token_cast(stream, plain(256), {bf16, 128}); }, "bf16");
    check_refusal([&] { quant::per_block_cast(stream, plain(256), {e5m6, 128, 128}); }, "e5m6");

    const auto pair = [&](Element type, Shape scales, std::int64_t columns = 256) {
        return QuantizedView{TensorView::of(host, bytes.data(), type, {4, columns}),
                             TensorView::of(host, x.data(), f32, scales), ScaleLayout::row_major, 1, 128};
    };
    check_refusal([&] { quant::cast_back(stream, pair(e4m3, {4, 3})); }, "[4, 2]");
    check_refusal([&] { quant::cast_back(stream, pair(bf16, {4, 2})); }, "bf16");
    check_refusal([&] { quant::cast_back(stream, pair(e2m1, {4, 1}, 127)); }, "multiple of 2");
    check_refusal([&] { quant::cast_back(stream, pair(e4m3, {4, 2}), e4m3); }, "e4m3");
    QuantizedView words = pair(e4m3, {4, 2});
    words.scale_layout = ScaleLayout::packed_ue8m0;
    check_refusal([&] { quant::cast_back(stream, words); }, "i32 [4, 1]");
    QuantizedView blocks = pair(e4m3, {4, 2});
    blocks.block_rows = 0;
    check_refusal([&] { quant::cast_back(stream, blocks); }, "from 1 to");
    check_refusal([&] { quant::per_token_cast(stream, pair(e5m6, {4, 2})); }, "e5m6");
    check_refusal([&] { quant::per_token_cast(stream, pair(e4m3, {4, 2}), {e5m6, 256}); }, "e5m6");
    check_refusal([&] { quant::per_token_cast(stream, pair(e4m3, {4, 2}), {e4m3, 48}); }, "48");
    check_refusal([&] { quant::per_token_cast_with_precomputed_sf(stream, plain(256), plain(3)); }, "[4, 2]");
}
