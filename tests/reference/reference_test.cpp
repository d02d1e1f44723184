#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <limits>

#include "tests/support/golden_file.hpp"
#include "tests/support/reference/formats.hpp"
#include "tests/support/reference/quantize.hpp"
#include "tests/support/reference/rms_norm.hpp"
#include "tests/support/reference/transpose.hpp"

// The reference against facts of the specification and outputs of real kernels; nothing here touches the library.

namespace {

using namespace tessera::reference;
using tessera::test::golden_files;
using tessera::test::GoldenFile;

std::uint32_t crc32(const std::vector<std::uint8_t>& bytes) {
    std::uint32_t crc = ~0u;
    for (const std::uint8_t byte : bytes) {
        crc ^= byte;
        for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0xEDB88320u : 0);
    }
    return ~crc;
}

float float_of(std::uint32_t bits) {
    float f;
    std::memcpy(&f, &bits, sizeof f);
    return f;
}

/// Scale and first code of a single row of values.
Quantized one_block(const std::vector<float>& values, bool round, Scales scales = Scales::row_major) {
    const auto n = static_cast<std::int64_t>(values.size());
    return quantize({values.data(), false, 1, n, n}, {1, n, scales, round});
}

}  // namespace

TEST_CASE("E4M3 codes named in the specification", "[reference]") {
    const std::vector<std::pair<float, int>> known = {{464, 0x7E},
                                                      {std::ldexp(1.0f, -10), 0x00},
                                                      {std::ldexp(1.5f, -10), 0x01},
                                                      {17, 0x58},
                                                      {19, 0x5A},
                                                      {-0.3f, 0xAA},
                                                      {240.1f, 0x77},
                                                      {-0.0f, 0x80},
                                                      {1e30f, 0x7E},
                                                      {-1e30f, 0xFE}};
    for (const auto& [x, code] : known) CHECK(int(e4m3_nearest(x)) == code);
    const float infinity = std::numeric_limits<float>::infinity();
    CHECK(int(e4m3_nearest(infinity)) == 0x7E);
    CHECK(int(e4m3_nearest(-infinity)) == 0xFE);
    CHECK(int(e4m3_nearest(std::numeric_limits<float>::quiet_NaN())) == 0x7F);
}

TEST_CASE("every E4M3 code survives decoding, midpoints go to even", "[reference]") {
    for (int code = 0; code < 256; ++code) {
        if ((code & 0x7F) == 0x7F) continue;
        CHECK(int(e4m3_nearest(static_cast<float>(e4m3_value(static_cast<std::uint8_t>(code))))) == code);
    }
    for (int code = 0; code < 0x7E; ++code) {
        const auto low = static_cast<float>(e4m3_value(static_cast<std::uint8_t>(code)));
        const auto high = static_cast<float>(e4m3_value(static_cast<std::uint8_t>(code + 1)));
        const float middle = (low + high) / 2;
        CHECK(int(e4m3_nearest(middle)) == (code % 2 == 0 ? code : code + 1));
        CHECK(int(e4m3_nearest(std::nextafter(middle, 0.0f))) == code);
        CHECK(int(e4m3_nearest(std::nextafter(middle, 1e9f))) == code + 1);
    }
}

TEST_CASE("BF16 to nearest even", "[reference]") {
    CHECK(bf16_nearest(1.0f) == 0x3F80);
    CHECK(bf16_nearest(float_of(0x3F808000)) == 0x3F80);
    CHECK(bf16_nearest(float_of(0x3F818000)) == 0x3F82);
    CHECK(bf16_nearest(float_of(0x3F808001)) == 0x3F81);
    CHECK(bf16_value(0xC000) == -2.0f);
}

TEST_CASE("scales at the clamp and at powers of two", "[reference]") {
    CHECK(one_block({0}, false).scales[0] == 0x346FACAD);
    CHECK(one_block({0}, true, Scales::packed_ue8m0).scales[0] == 105);
    CHECK(one_block({1}, false).scales[0] == 0x3B124925);
    CHECK(one_block({1}, true, Scales::packed_ue8m0).scales[0] == 119);
    CHECK(one_block({448}, true, Scales::packed_ue8m0).scales[0] == 127);
    CHECK(one_block({std::nextafter(448.0f, 1e9f)}, true, Scales::packed_ue8m0).scales[0] == 128);
    CHECK(float_of(one_block({458752}, true).scales[0]) == 1024.0f);
    CHECK(float_of(one_block({std::nextafter(458752.0f, 1e9f)}, true).scales[0]) == 2048.0f);
}

TEST_CASE("packed scales lie as in the specification's example", "[reference]") {
    // M = 3, K = 6, bytes e(m, k) = 119 + 6m + k. A value of 448 · 2^(e − 127) alone in its block gives byte e.
    std::vector<float> x(3 * 6 * 16, 0.0f);
    for (int m = 0; m < 3; ++m)
        for (int k = 0; k < 6; ++k) x[m * 96 + k * 16] = std::ldexp(448.0f, 119 + 6 * m + k - 127);
    const Quantized q = quantize({x.data(), false, 3, 96, 96}, {1, 16, Scales::packed_ue8m0, true});
    const std::vector<std::uint8_t> expected = {0x77, 0x78, 0x79, 0x7a, 0x7d, 0x7e, 0x7f, 0x80, 0x83, 0x84, 0x85,
                                                0x86, 0,    0,    0,    0,    0x7b, 0x7c, 0,    0,    0x81, 0x82,
                                                0,    0,    0x87, 0x88, 0,    0,    0,    0,    0,    0};
    REQUIRE(q.scales.size() * 4 == expected.size());
    CHECK(std::memcmp(q.scales.data(), expected.data(), expected.size()) == 0);
}

TEST_CASE("end-to-end sums of the specification", "[reference]") {
    std::vector<float> x(2 * 64);
    for (int i = 0; i < 128; ++i) x[i] = static_cast<float>(i * 37 % 101 - 50) / 8;
    std::vector<std::uint16_t> narrow;
    for (const float v : x) narrow.push_back(bf16_nearest(v));
    for (const bool bf16 : {false, true}) {
        const void* data = bf16 ? static_cast<const void*>(narrow.data()) : x.data();
        const Quantized plain = quantize({data, bf16, 2, 64, 64}, {1, 32, Scales::row_major, false});
        CHECK(plain.scales == std::vector<std::uint32_t>{0x3C649249, 0x3C600000, 0x3C600000, 0x3C649249});
        CHECK(crc32(plain.codes) == 0xAC3A281E);
        const Quantized rounded = quantize({data, bf16, 2, 64, 64}, {1, 32, Scales::row_major, true});
        CHECK(rounded.scales == std::vector<std::uint32_t>(4, 0x3C800000));
        CHECK(crc32(rounded.codes) == 0xBA683BDA);
    }
}

TEST_CASE("outputs of the real cast kernels", "[reference]") {
    int seen = 0;
    for (const std::string kernel : {"per_token_cast", "per_block_cast"})
        for (const GoldenFile& file : golden_files(kernel)) {
            if (file.text("fmt") != "e4m3" || !file.text("in_fmt").empty()) continue;
            ++seen;
            const auto& x = file.tensors.at("in.x");
            const auto& sf = file.tensors.at("out.sf");
            const std::string kind = file.text("sf");
            QuantizeRule rule{1, 0, Scales::row_major, kind != "rowf" && kind != "colf"};
            if (kind == "packed") rule.scales = Scales::packed_ue8m0;
            if (kernel == "per_token_cast") {
                rule.block_columns = file.number("num_per_channels");
            } else {
                const std::string size = file.text("block_size");  // "[128,128]"
                rule.block_rows = rule.block_columns = std::stoll(size.substr(1));
            }
            const std::int64_t rows = x.shape[0], columns = x.shape[1];
            const Quantized q = quantize({x.bytes.data(), x.dtype == "BF16", rows, columns, columns}, rule);
            CHECK(q.codes == file.tensors.at("out.out").bytes);
            // The file holds scales densely in logical order; bytes past the last block of a packed word are
            // unspecified.
            const std::int64_t blocks = (columns + rule.block_columns - 1) / rule.block_columns;
            for (std::int64_t m = 0; m < sf.shape[0]; ++m)
                for (std::int64_t k = 0; k < sf.shape[1]; ++k) {
                    const bool packed = rule.scales == Scales::packed_ue8m0;
                    std::uint32_t word;
                    std::memcpy(&word, &sf.bytes[(m * sf.shape[1] + k) * 4], 4);
                    if (packed && k * 4 + 4 > blocks) word &= (1u << (8 * (blocks - k * 4))) - 1;
                    CHECK(q.scales[scale_word(m, packed ? k * 4 : k, rows, columns, rule)] == word);
                }
        }
    CHECK(seen == 9);
}

TEST_CASE("outputs of the real transpose kernel", "[reference]") {
    const auto files = golden_files("batched_transpose");
    CHECK(files.size() == 3);
    for (const GoldenFile& file : files) {
        const auto& x = file.tensors.at("in.x");
        const int bytes = x.dtype == "F32" ? 4 : x.dtype == "BF16" ? 2 : 1;
        const auto out = batched_transpose(x.bytes.data(), bytes, x.shape[0], x.shape[1], x.shape[2], x.shape[2],
                                           x.shape[1] * x.shape[2]);
        CHECK(out == file.tensors.at("out.out").bytes);
    }
}

TEST_CASE("RMS normalisation of a row worked by hand", "[reference]") {
    const std::vector<float> x = {3, -4, 0, 5, 1, 1, 1, 1}, w = {1, 2, 3, 4};
    const auto y = rms_norm({x.data(), false, 2, 4, 4}, {w.data(), false, 1, 4, 4}, 0);
    const double root = std::sqrt(12.5);
    const std::vector<double> expected = {3 / root, -8 / root, 0, 20 / root, 1, 2, 3, 4};
    for (std::size_t i = 0; i < y.size(); ++i) CHECK(y[i] == Approx(expected[i]).epsilon(1e-14));
}
