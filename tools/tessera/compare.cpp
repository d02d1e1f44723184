#include "tools/tessera/compare.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <fmt/format.h>

#include "reference/engram.hpp"

namespace tessera::tool {

namespace {

std::optional<std::string> form_difference(const CaseTensor& expected, const CaseTensor& got) {
    if (expected.type != got.type) {
        return fmt::format("has the type {} instead of {}", name_of(got.type), name_of(expected.type));
    }
    if (expected.shape != got.shape) {
        return fmt::format("has the extents {} instead of {}", json::list(got.shape), json::list(expected.shape));
    }
    for (std::size_t axis = 0; axis < expected.shape.size(); ++axis) {
        if (expected.shape[axis] > 1 && expected.strides[axis] != got.strides[axis]) {
            return fmt::format("has the strides {} instead of {}", json::list(got.strides),
                               json::list(expected.strides));
        }
    }
    return std::nullopt;
}

std::vector<std::int64_t> coordinates_of(std::size_t index, const std::vector<std::int64_t>& shape) {
    std::vector<std::int64_t> at(shape.size());
    auto rest = static_cast<std::int64_t>(index);
    for (std::size_t axis = shape.size(); axis-- > 0;) {
        at[axis] = rest % shape[axis];
        rest /= shape[axis];
    }
    return at;
}

/// The bits of an element, as a number is written: highest digit first.
std::string bit_pattern(const std::byte* value, std::size_t width) {
    std::string text = "0x";
    for (std::size_t i = width; i-- > 0;) text += fmt::format("{:02x}", std::to_integer<unsigned>(value[i]));
    return text;
}

/// What the element must be: the file's bytes, and 0 behind the last packed block.
std::vector<std::byte> expected_values(const CaseTensor& expected, const Rule& rule) {
    std::vector<std::byte> values = rule.values.empty() ? expected.values : rule.values;
    if (rule.packed_blocks == 0 || expected.shape.empty()) return values;
    const std::size_t row_bytes = static_cast<std::size_t>(expected.shape.back()) * expected.value_bytes();
    for (std::size_t i = 0; i < values.size(); ++i) {
        if (i % row_bytes >= static_cast<std::size_t>(rule.packed_blocks)) values[i] = std::byte{0};
    }
    return values;
}

float float_at(const std::byte* value) {
    float x;
    std::memcpy(&x, value, sizeof x);
    return x;
}

/// Whether two FP32 values, given by their bytes, are as near as the rule demands; infinity is near nothing.
bool near(const Rule& rule, const std::byte* file, const std::byte* ours, bool host) {
    const float a = float_at(file), b = float_at(ours);
    if (!std::isfinite(a) || !std::isfinite(b)) return false;
    const double limit = rule.absolute + rule.relative * std::abs(double{a});
    if (limit > 0 && std::abs(double{a} - double{b}) <= limit) return true;
    if (!host || rule.host_ulps == 0 || std::signbit(a) != std::signbit(b)) return false;
    std::int32_t x = 0, y = 0;
    std::memcpy(&x, file, sizeof x);
    std::memcpy(&y, ours, sizeof y);
    return std::abs(x - y) <= rule.host_ulps;
}

double value_at(const std::byte* value, StoredType type) {
    if (type == StoredType::F32) return float_at(value);
    std::uint16_t bits = 0;
    std::memcpy(&bits, value, sizeof bits);
    const std::uint32_t wide = std::uint32_t{bits} << 16;
    float x;
    std::memcpy(&x, &wide, sizeof x);
    return x;
}

/// Whether two values are as near as the element's own limit demands.
bool within(double limit, const std::byte* file, const std::byte* ours, StoredType type) {
    const double a = value_at(file, type), b = value_at(ours, type);
    if (!std::isfinite(a) || !std::isfinite(b)) return false;
    if (type == StoredType::BF16) limit += 2 * reference::half_bf16_ulp(std::max(std::abs(a), std::abs(b)));
    return std::abs(a - b) <= limit;
}

/// The file's counts divided by the multiple that they are of ours; as they are if there is none.
std::vector<std::byte> divided(std::vector<std::byte> file, const std::vector<std::byte>& ours) {
    const std::size_t n = std::min(file.size(), ours.size()) / sizeof(std::int64_t);
    std::vector<std::int64_t> a(n), b(n);
    std::memcpy(a.data(), file.data(), n * sizeof(std::int64_t));
    std::memcpy(b.data(), ours.data(), n * sizeof(std::int64_t));
    std::int64_t factor = 1;
    for (std::size_t i = 0; i < n; ++i)
        if (b[i] > 0 && a[i] > 0) factor = std::max<std::int64_t>(1, a[i] / b[i]);
    for (std::size_t i = 0; i < n; ++i)
        if (a[i] != b[i] * factor) return file;
    return ours;
}

}  // namespace

std::optional<std::string> difference(const CaseTensor& expected, const Result& got, const Rule& rule) {
    if (!rule.broken.empty()) return rule.broken;
    if (auto form = form_difference(expected, got.tensor)) return form;
    std::vector<std::byte> wanted = expected_values(expected, rule);
    if (rule.multiple) wanted = divided(std::move(wanted), got.tensor.values);
    const std::size_t width = expected.value_bytes();
    if (wanted.size() != got.tensor.values.size()) {
        return fmt::format("holds {} bytes instead of {}", got.tensor.values.size(), wanted.size());
    }
    std::size_t differing = 0, first = 0;
    const std::size_t row_bytes = rule.rows.empty() ? 1 : std::max<std::size_t>(1, wanted.size() / rule.rows.size());
    for (std::size_t at = 0; at < wanted.size(); at += width) {
        if (!rule.rows.empty() && !rule.rows[at / row_bytes]) continue;
        const std::byte *file = &wanted[at], *ours = &got.tensor.values[at];
        if (std::equal(file, file + width, ours)) continue;
        if (expected.type == StoredType::F32 && near(rule, file, ours, got.host)) continue;
        if (!rule.limits.empty() && within(rule.limits[at / width], file, ours, expected.type)) continue;
        if (differing++ == 0) first = at;
    }
    if (differing != 0) {
        return fmt::format("differs in {} of {} elements, first at {}: expected {}, got {}", differing,
                           wanted.size() / width, json::list(coordinates_of(first / width, expected.shape)),
                           bit_pattern(&wanted[first], width), bit_pattern(&got.tensor.values[first], width));
    }
    const auto dirty =
        std::find_if(got.padding.begin(), got.padding.end(), [](std::byte b) { return b != std::byte{0}; });
    if (dirty == got.padding.end()) return std::nullopt;
    return fmt::format("has the byte 0x{:02x} in its padding (byte {} of it), which must be 0",
                       std::to_integer<unsigned>(*dirty), dirty - got.padding.begin());
}

}  // namespace tessera::tool
