#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <limits>
#include <tuple>

#include "tests/support/golden_file.hpp"
#include "tests/support/reference/formats.hpp"
#include "tests/support/reference/quantize.hpp"

// E2M1 and E5M6 in the reference, against facts of the specification and outputs of real kernels.

namespace {

using namespace tessera::reference;
using tessera::test::golden_files;
using tessera::test::GoldenFile;
using Bytes = std::vector<std::uint8_t>;
using Codes = std::vector<std::uint16_t>;

const float infinity = std::numeric_limits<float>::infinity();
const float nan_value = std::numeric_limits<float>::quiet_NaN();

std::uint32_t crc32(const Bytes& bytes) {
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

float units(double n) { return static_cast<float>(std::ldexp(n, -20)); }

Format format_named(const std::string& name) {
    return name == "e2m1" ? Format::e2m1 : name == "e5m6" ? Format::e5m6 : Format::e4m3;
}

Scales layout_named(const std::string& kind) {
    return kind == "packed" ? Scales::packed_ue8m0 : kind[0] == 'c' ? Scales::column_major : Scales::row_major;
}

/// The numbers in "[128,32]".
std::pair<std::int64_t, std::int64_t> sides(const std::string& text) {
    return {std::stoll(text.substr(1)), std::stoll(text.substr(text.find(',') + 1))};
}

/// A case's scales, which are dense in logical order, in the reference's memory.
std::vector<std::uint32_t> scales_of(const GoldenFile& file, const std::string& name, std::int64_t rows,
                                     std::int64_t columns, const QuantizeRule& rule) {
    const auto& sf = file.tensors.at(name);
    std::vector<std::uint32_t> words(scale_words(rows, columns, rule), 0);
    const bool packed = rule.scales == Scales::packed_ue8m0;
    const std::int64_t blocks = (columns + rule.block_columns - 1) / rule.block_columns;
    for (std::int64_t m = 0; m < sf.shape[0]; ++m)
        for (std::int64_t k = 0; k < sf.shape[1]; ++k) {
            std::uint32_t word;
            std::memcpy(&word, &sf.bytes[(m * sf.shape[1] + k) * 4], 4);
            if (packed && k * 4 + 4 > blocks) word &= (1u << (8 * (blocks - k * 4))) - 1;  // the rest is unspecified
            words[scale_word(m, packed ? k * 4 : k, rows, columns, rule)] = word;
        }
    return words;
}

/// The rule of a case's output (or, of a pair, input) scales.
QuantizeRule rule_of(const std::string& kind, Format format) {
    return {1, 0, layout_named(kind), kind != "rowf" && kind != "colf", format};
}

}  // namespace

TEST_CASE("E2M1 codes named in the specification", "[reference]") {
    const std::vector<std::pair<float, unsigned>> known = {
        {.25f, 0}, {.75f, 2}, {1.25f, 2}, {1.75f, 4}, {2.5f, 4}, {3.5f, 6},     {5, 6},          {5.000001f, 7},
        {-.1f, 8}, {-.3f, 9}, {-0.0f, 8}, {1e30f, 7}, {-7, 15},  {infinity, 7}, {-infinity, 15}, {nan_value, 7}};
    for (const auto& [x, code] : known) CHECK(code_of(Format::e2m1, x) == code);
}

TEST_CASE("E5M6 codes named in the specification", "[reference]") {
    const std::vector<std::pair<float, unsigned>> known = {{1, 0x3C0},
                                                           {65024, 0x7BF},
                                                           {-2, 0xC00},
                                                           {1 + 1 / 128.0f, 0x3C0},
                                                           {1 + 3 / 128.0f, 0x3C2},
                                                           {units(1), 1},
                                                           {units(63), 0x3F},
                                                           {units(64), 0x40},
                                                           {units(.5), 0},
                                                           {units(1.5), 1},
                                                           {units(3), 3},
                                                           {float_of(0x30818001), 1},
                                                           {float_of(0x30810000), 0},
                                                           {-0.0f, 0x800},
                                                           {infinity, 0x7C0},
                                                           {nan_value, 0x800}};
    for (const auto& [x, code] : known) CHECK(code_of(Format::e5m6, x) == code);
    for (const auto& [n, code] : {std::pair{.75, 0u}, {1.5, 1u}, {3.5, 3u}, {62.75, 62u}})
        CHECK(code_of(Format::e5m6, units(n)) == code);
}

TEST_CASE("codes lie in bytes as the specification says", "[reference]") {
    CHECK(packed(Format::e2m1, {1, 2, 0xF, 0}) == Bytes{0x21, 0x0F});
    const Codes values = {0x3C0, 0x7BF, 0xC00, 0x3C0, 0x3C2, 0x001, 0x03F, 0x040};
    const Bytes bytes = {0xc0, 0xbf, 0x07, 0x3c, 0x20, 0x3c, 0xc0, 0x03, 0x40, 0xf0, 0x03, 0x01};
    CHECK(packed(Format::e5m6, values) == bytes);
    CHECK(unpacked(Format::e5m6, bytes) == values);
    CHECK(unpacked(Format::e2m1, {0x21, 0x0F}) == Codes{1, 2, 0xF, 0});
}

TEST_CASE("codes survive decoding", "[reference]") {
    for (unsigned code = 0; code < 16; ++code)
        CHECK(code_of(Format::e2m1, static_cast<float>(value_of(Format::e2m1, code))) == code);
    for (unsigned code = 0; code <= 0x7C0; ++code)
        for (const unsigned sign : {0u, 0x800u})
            CHECK(code_of(Format::e5m6, static_cast<float>(value_of(Format::e5m6, code + sign))) == code + sign);
}

TEST_CASE("narrow scales at the clamp", "[reference]") {
    const float zeros[8] = {};
    const auto scale = [&](Format format, bool round) {
        return quantize({zeros, false, 1, 8, 8}, {1, 8, Scales::row_major, round, format}).scales[0];
    };
    CHECK(scale(Format::e2m1, false) == 0x00800000);
    CHECK(scale(Format::e2m1, true) == 0x00800000);
    CHECK(scale(Format::e5m6, false) == 0x30D35DD3);
    CHECK(scale(Format::e5m6, true) == 98u << 23);
}

TEST_CASE("end-to-end sums of the specification for narrow formats", "[reference]") {
    std::vector<float> x(2 * 64);
    for (int i = 0; i < 128; ++i) x[i] = static_cast<float>(i * 37 % 101 - 50) / 8;
    struct Known {
        Format format;
        bool round;
        std::vector<std::uint32_t> scales;
        std::uint32_t crc;
    };
    const std::vector<Known> known = {
        {Format::e2m1, false, {0x3F855555, 0x3F82AAAB, 0x3F82AAAB, 0x3F855555}, 0xC9C8BDB0},
        {Format::e2m1, true, std::vector<std::uint32_t>(4, 0x40000000), 0x77104D58},
        {Format::e5m6, false, {0x38C99326, 0x38C99326}, 0x83128A67},
        {Format::e5m6, true, std::vector<std::uint32_t>(2, 114u << 23), 0x06B6AF13}};
    for (const Known& k : known) {
        const std::int64_t group = k.format == Format::e5m6 ? 64 : 32;
        const Quantized q = quantize({x.data(), false, 2, 64, 64}, {1, group, Scales::row_major, k.round, k.format});
        CHECK(q.scales == k.scales);
        CHECK(crc32(q.codes) == k.crc);
    }
}

TEST_CASE("outputs of the real narrow casts", "[reference]") {
    int seen = 0;
    for (const std::string kernel : {"per_token_cast", "per_block_cast", "per_token_cast_to_e5m6"})
        for (const GoldenFile& file : golden_files(kernel)) {
            const Format format = kernel == "per_token_cast_to_e5m6" ? Format::e5m6 : format_named(file.text("fmt"));
            if (format == Format::e4m3 || !file.text("in_fmt").empty()) continue;
            ++seen;
            const auto& x = file.tensors.at("in.x");
            const std::int64_t rows = x.shape[0], columns = x.shape[1];
            QuantizeRule rule = rule_of(file.text("sf"), format);
            if (kernel == "per_block_cast")
                std::tie(rule.block_rows, rule.block_columns) = sides(file.text("block_size"));
            else
                rule.block_columns = format == Format::e5m6 ? columns : file.number("num_per_channels");
            const Quantized q = quantize({x.bytes.data(), x.dtype == "BF16", rows, columns, columns}, rule);
            CHECK(q.codes == file.tensors.at("out.out").bytes);
            CHECK(q.scales == scales_of(file, "out.sf", rows, columns, rule));
        }
    CHECK(seen == 9);
}

TEST_CASE("outputs of the real re-quantization", "[reference]") {
    int seen = 0;
    for (const GoldenFile& file : golden_files("per_token_cast")) {
        if (file.text("in_fmt").empty()) continue;
        ++seen;
        QuantizeRule from = rule_of(file.text("sf"), format_named(file.text("in_fmt")));
        std::tie(from.block_rows, from.block_columns) = sides(file.text("x_block_size"));
        QuantizeRule rule = rule_of(file.text("sf"), format_named(file.text("fmt")));
        rule.block_columns = file.number("num_per_channels");
        const auto& x = file.tensors.at("in.x");
        const std::int64_t rows = x.shape[0], columns = x.shape[1] * 8 / bits_of(from.format);
        const Quantized in{x.bytes, scales_of(file, "in.x_sf", rows, columns, from)};
        const Quantized q = requantize(in, rows, columns, from, rule);
        CHECK(q.codes == file.tensors.at("out.out").bytes);
        CHECK(q.scales == scales_of(file, "out.sf", rows, columns, rule));
    }
    CHECK(seen == 4);
}

TEST_CASE("outputs of the real casts back", "[reference]") {
    int seen = 0;
    for (const std::string kernel : {"cast_back", "per_token_cast_back", "cast_back_e5m6"})
        for (const GoldenFile& file : golden_files(kernel)) {
            ++seen;
            const Format format = kernel == "cast_back_e5m6" ? Format::e5m6 : format_named(file.text("fmt"));
            const std::string kind = file.text("sf").empty() ? "rowf" : file.text("sf");
            const auto& x = file.tensors.at("in.x");
            const std::int64_t rows = x.shape[0], columns = x.shape[1] * 8 / bits_of(format);
            QuantizeRule from = rule_of(kind, format);
            from.block_columns = columns;
            if (kernel == "cast_back")
                std::tie(from.block_rows, from.block_columns) = sides(file.text("x_block_size"));
            else if (kernel == "per_token_cast_back")
                from.block_columns = file.number("num_per_channels");
            const Quantized in{x.bytes, scales_of(file, "in.x_sf", rows, columns, from)};
            const auto& out = file.tensors.at("out.out");
            const std::vector<float> values = cast_back(in, rows, columns, from);
            std::size_t wrong = 0;
            for (std::size_t i = 0; i < values.size(); ++i) {
                if (out.dtype == "BF16") {
                    const std::uint16_t bits = bf16_nearest(values[i]);
                    wrong += std::memcmp(&bits, &out.bytes[i * 2], 2) != 0 ? 1 : 0;
                } else {
                    wrong += std::memcmp(&values[i], &out.bytes[i * 4], 4) != 0 ? 1 : 0;
                }
            }
            CHECK(wrong == 0);
        }
    CHECK(seen == 9);
}
