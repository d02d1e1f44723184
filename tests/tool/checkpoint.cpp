// Quantizing a checkpoint: codes and scales against the specification's rules, worked out here once more and slowly.
#include "tools/tessera/checkpoint.hpp"

#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "tests/tool/support.hpp"

namespace tessera::tool_test {
namespace {

using namespace tool;

/// Value of an E4M3 code below 0x7f: sign, four bits of exponent with bias 7, three of mantissa.
double e4m3_value(int code) {
    const int exponent = code >> 3 & 15, mantissa = code & 7;
    const double magnitude = exponent == 0 ? std::ldexp(mantissa, -9) : std::ldexp(8 + mantissa, exponent - 10);
    return code & 0x80 ? -magnitude : magnitude;
}

/// The nearest code, the even one of two equally near, the sign kept.
int e4m3_code(float y) {
    int best = 0;
    for (int code = 1; code < 0x7f; ++code) {
        const double now = std::abs(e4m3_value(code) - std::abs(static_cast<double>(y)));
        const double before = std::abs(e4m3_value(best) - std::abs(static_cast<double>(y)));
        if (now < before || (now == before && code % 2 == 0)) best = code;
    }
    return std::signbit(y) ? best | 0x80 : best;
}

struct Weight {
    std::string name;
    StoredType type;
    std::int64_t rows, columns;
    std::vector<float> values;  // what the stored bytes mean
    std::string bytes;
};

/// Random weights whose stored form is exact: the low bits of F16 and BF16 values are dropped first.
Weight weight(const std::string& name, StoredType type, std::int64_t rows, std::int64_t columns, unsigned seed) {
    Weight w{name, type, rows, columns, {}, {}};
    std::mt19937 random(seed);
    std::normal_distribution<float> normal(0.0f, 0.1f);
    for (std::int64_t i = 0; i < rows * columns; ++i) {
        const float raw = i % 97 == 0 ? 0.0f : normal(random);
        if (type == StoredType::F16) {
            const int exponent = -6 + static_cast<int>(random() % 6);
            const auto mantissa = static_cast<int>(random() % 1024);
            w.values.push_back(std::ldexp(static_cast<float>(1024 + mantissa), exponent - 10));
            const int code = (exponent + 15) << 10 | mantissa;
            w.bytes += {static_cast<char>(code & 0xff), static_cast<char>(code >> 8)};
            continue;
        }
        const std::uint32_t kept = std::bit_cast<std::uint32_t>(raw) & (type == StoredType::BF16 ? 0xffff0000u : ~0u);
        w.values.push_back(std::bit_cast<float>(kept));
        for (int byte = type == StoredType::BF16 ? 2 : 0; byte < 4; ++byte)
            w.bytes += static_cast<char>(kept >> (8 * byte));
    }
    return w;
}

/// Scale and codes of one block by §1.3 of the specification: clamp at 1e-4, two IEEE divisions, one product.
void check_block(const Weight& w, const BlockGrid& grid, std::int64_t m, std::int64_t k, const std::string& codes,
                 float scale) {
    float amax = 0;
    const auto each = [&](auto&& visit) {
        for (std::int64_t r = m * grid.block_rows; r < std::min(w.rows, (m + 1) * grid.block_rows); ++r) {
            for (std::int64_t c = k * grid.block_columns; c < std::min(w.columns, (k + 1) * grid.block_columns); ++c) {
                visit(static_cast<std::size_t>(r * w.columns + c));
            }
        }
    };
    each([&](std::size_t i) { amax = std::max(amax, std::abs(w.values[i])); });
    const float clamped = std::max(amax, 1e-4f);
    CHECK(scale == clamped / 448.0f);
    const float inverse = 448.0f / clamped;
    int wrong = 0;
    each([&](std::size_t i) {
        wrong += static_cast<unsigned char>(codes[i]) != e4m3_code(w.values[i] * inverse) ? 1 : 0;
    });
    CHECK(wrong == 0);
}

std::string text_of(const std::vector<std::byte>& bytes) {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

void check_weight(const SafetensorsFile& file, const Weight& w, const quant::BlockCastOptions& options) {
    INFO(w.name);
    const StoredTensor* codes = file.find(w.name);
    const StoredTensor* scales = file.find(w.name + "_scale_inv");
    REQUIRE(codes);
    REQUIRE(scales);
    const BlockGrid grid{w.rows, w.columns, options.block_rows, options.block_columns};
    CHECK(describe(*codes) == "F8_E4M3 [" + std::to_string(w.rows) + ", " + std::to_string(w.columns) + "]");
    REQUIRE(scales->shape == std::vector<std::int64_t>{grid.scale_rows(), grid.scale_columns()});
    const std::string code_bytes = text_of(file.read(*codes));
    const std::vector<float> factors = values_of(file, *scales);
    for (std::int64_t m = 0; m < grid.scale_rows(); ++m) {
        for (std::int64_t k = 0; k < grid.scale_columns(); ++k) {
            check_block(w, grid, m, k, code_bytes, factors[static_cast<std::size_t>(m * grid.scale_columns() + k)]);
        }
    }
}

TEST_CASE("a small checkpoint of all weight types makes the round trip") {
    const Folder folder;
    const std::vector<Weight> weights = {weight("embed", StoredType::F32, 130, 200, 1),
                                         weight("layer.0", StoredType::BF16, 64, 70, 2),
                                         weight("layer.1", StoredType::F16, 33, 129, 3)};
    std::vector<NamedBytes> tensors = {{{"bias", StoredType::F32, {3}}, "123456789abc"},
                                       {{"ids", StoredType::I64, {1, 2}}, "0123456701234567"},
                                       {{"odd", StoredType::F6_E2M3, {2, 4}}, "abcdef"},
                                       {{"none", StoredType::F32, {0, 4}}, ""}};
    for (const Weight& w : weights) tensors.push_back({{w.name, w.type, {w.rows, w.columns}}, w.bytes});
    write_file(folder.file("in"), tensors, {{"format", "pt"}});

    const SafetensorsFile before = SafetensorsFile::open(folder.file("in"));
    const std::vector<PlannedTensor> plan = plan_checkpoint(before);
    quant::BlockCastOptions options;
    std::uint64_t advanced = 0;
    SafetensorsWriter writer(folder.file("out"), planned_outputs(plan, options), before.metadata(), false);
    convert_checkpoint(Device::host().stream(), before, plan, options, writer, [&](auto bytes) { advanced += bytes; });
    writer.finish();

    const SafetensorsFile after = SafetensorsFile::open(folder.file("out"));
    CHECK(after.tensors().size() == 4 + 2 * weights.size());
    CHECK(after.metadata() == StoredMetadata{{"format", "pt"}});
    std::uint64_t bytes_in = 0;
    for (const StoredTensor& t : before.tensors()) bytes_in += t.bytes();
    CHECK(advanced == bytes_in);
    for (std::size_t i = 0; i < 4; ++i) {
        const StoredTensor* copied = after.find(tensors[i].tensor.name);
        REQUIRE(copied);
        CHECK(copied->type == tensors[i].tensor.type);
        CHECK(text_of(after.read(*copied)) == tensors[i].bytes);
    }
    for (const Weight& w : weights) check_weight(after, w, options);

    const Quality quality = measure_checkpoint(before, after, plan, options, [](auto) {});
    CHECK(quality.values() == 130 * 200 + 64 * 70 + 33 * 129);
    CHECK(quality.max_error() < 1.0 / 28);  // half a step of 32 at 448
    CHECK(quality.max_error() > 1.0 / 56);
    CHECK(quality.signal_to_noise() > 28);
    CHECK(quality.signal_to_noise() < 40);
}

std::string float_bytes(std::initializer_list<float> values) {
    std::string bytes;
    for (float v : values) bytes.append(reinterpret_cast<const char*>(&v), sizeof v);
    return bytes;
}

TEST_CASE("a weight that is not finite is refused with its place") {
    const Folder folder;
    const std::string path = folder.file("in");
    write_file(path,
               {{{"w", StoredType::F32, {2, 2}}, float_bytes({1, 2, 3, std::numeric_limits<float>::infinity()})}});
    const SafetensorsFile file = SafetensorsFile::open(path);
    const std::vector<PlannedTensor> plan = plan_checkpoint(file);
    SafetensorsWriter writer(folder.file("out"), planned_outputs(plan, {}), {}, false);
    CHECK(usage_error([&] { convert_checkpoint(Device::host().stream(), file, plan, {}, writer, [](auto) {}); }) ==
          path + ": the weight \"w\" is inf at [1, 1], which no scale can hold; repair the checkpoint");
}

TEST_CASE("a checkpoint that holds scales already is refused") {
    const Folder folder;
    const std::string path = folder.file("in");
    write_file(path, {{{"w_scale_inv", StoredType::F32, {1, 1}}, float_bytes({1})}});
    CHECK(usage_error([&] { plan_checkpoint(SafetensorsFile::open(path)); }) ==
          path +
              ": the tensor \"w_scale_inv\" ends in _scale_inv, as the scales of quantized weights do; give a "
              "checkpoint that "
              "is not quantized yet");
}

}  // namespace
}  // namespace tessera::tool_test
