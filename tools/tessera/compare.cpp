#include "tools/tessera/compare.hpp"

#include <algorithm>
#include <fmt/format.h>

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
    std::vector<std::byte> values = expected.values;
    if (rule.packed_blocks == 0 || expected.shape.empty()) return values;
    const std::size_t row_bytes = static_cast<std::size_t>(expected.shape.back()) * expected.value_bytes();
    for (std::size_t i = 0; i < values.size(); ++i) {
        if (i % row_bytes >= static_cast<std::size_t>(rule.packed_blocks)) values[i] = std::byte{0};
    }
    return values;
}

}  // namespace

std::optional<std::string> difference(const CaseTensor& expected, const Result& got, const Rule& rule) {
    if (auto form = form_difference(expected, got.tensor)) return form;
    const std::vector<std::byte> wanted = expected_values(expected, rule);
    const std::size_t width = expected.value_bytes();
    if (wanted.size() != got.tensor.values.size()) {
        return fmt::format("holds {} bytes instead of {}", got.tensor.values.size(), wanted.size());
    }
    std::size_t differing = 0, first = 0;
    for (std::size_t at = 0; at < wanted.size(); at += width) {
        if (std::equal(&wanted[at], &wanted[at] + width, &got.tensor.values[at])) continue;
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
