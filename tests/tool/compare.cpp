// What counts as a difference between an output and its file, and how it is said.
#include "tools/tessera/compare.hpp"

#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <limits>

namespace tessera::tool {
namespace {

std::vector<std::byte> bytes(std::initializer_list<int> values) {
    std::vector<std::byte> result;
    for (int v : values) result.push_back(static_cast<std::byte>(v));
    return result;
}

CaseTensor words(std::vector<std::int64_t> shape, std::vector<std::int64_t> strides, std::vector<std::byte> values) {
    return {"sf", StoredType::I32, std::move(shape), std::move(strides), std::move(values)};
}

std::string said(const CaseTensor& expected, const CaseTensor& got, const Rule& rule = {},
                 std::vector<std::byte> padding = {}) {
    return difference(expected, {got, std::move(padding)}, rule).value_or("equal");
}

const CaseTensor two_rows = words({2, 1}, {1, 4}, bytes({1, 2, 3, 4, 5, 6, 7, 8}));

TEST_CASE("the first differing element is named with its coordinates and both bit patterns") {
    CaseTensor got = two_rows;
    CHECK(said(two_rows, got) == "equal");
    got.values[5] = std::byte{0x16};
    CHECK(said(two_rows, got) == "differs in 1 of 2 elements, first at [1, 0]: expected 0x08070605, got 0x08071605");
    got.values[0] = std::byte{0};
    CHECK(said(two_rows, got) == "differs in 2 of 2 elements, first at [0, 0]: expected 0x04030201, got 0x04030200");
}

TEST_CASE("type, extents and strides must be those of the file") {
    CaseTensor got = two_rows;
    got.type = StoredType::F32;
    CHECK(said(two_rows, got) == "has the type F32 instead of I32");
    got = two_rows;
    got.shape = {1, 2};
    CHECK(said(two_rows, got) == "has the extents [1, 2] instead of [2, 1]");
    got = two_rows;
    got.strides = {2, 4};
    CHECK(said(two_rows, got) == "has the strides [2, 4] instead of [1, 4]");
    got.strides = {1, 77};  // along an extent of 1 a stride means nothing
    CHECK(said(two_rows, got) == "equal");
    got = two_rows;
    got.values.pop_back();
    CHECK(said(two_rows, got) == "holds 7 bytes instead of 8");
}

TEST_CASE("bytes of packed scales behind the last block are ignored in the file and 0 in ours") {
    const Rule two_blocks{2};
    CaseTensor got = words({2, 1}, {1, 4}, bytes({1, 2, 0, 0, 5, 6, 0, 0}));
    CHECK(said(two_rows, got, two_blocks) == "equal");
    CHECK(said(two_rows, got) != "equal");
    got.values[3] = std::byte{4};  // what the file has there
    CHECK(said(two_rows, got, two_blocks) ==
          "differs in 1 of 2 elements, first at [0, 0]: expected 0x00000201, got 0x04000201");
    got = words({2, 1}, {1, 4}, bytes({1, 2, 0, 0, 5, 7, 0, 0}));
    CHECK(said(two_rows, got, two_blocks) ==
          "differs in 1 of 2 elements, first at [1, 0]: expected 0x00000605, got 0x00000705");
    // A row of two words with five blocks: the second word has one byte that counts.
    const CaseTensor wide = words({1, 2}, {1, 4}, bytes({1, 2, 3, 4, 5, 9, 9, 9}));
    CHECK(said(wide, words({1, 2}, {1, 4}, bytes({1, 2, 3, 4, 5, 0, 0, 0})), Rule{5}) == "equal");
    CHECK(said(wide, words({1, 2}, {1, 4}, bytes({1, 2, 3, 4, 0, 0, 0, 0})), Rule{5}) != "equal");
}

CaseTensor floats(std::initializer_list<float> values) {
    const auto n = static_cast<std::int64_t>(values.size());
    CaseTensor t{"sf", StoredType::F32, {n}, {1}, std::vector<std::byte>(values.size() * sizeof(float))};
    std::memcpy(t.values.data(), std::data(values), t.values.size());
    return t;
}

TEST_CASE("rows that are unspecified are not compared") {
    Rule rule;
    rule.rows = {true, false};
    CaseTensor got = two_rows;
    got.values[5] = std::byte{0x16};
    CHECK(said(two_rows, got, rule) == "equal");
    got.values[2] = std::byte{0x16};
    CHECK(said(two_rows, got, rule) ==
          "differs in 1 of 2 elements, first at [0, 0]: expected 0x04030201, got 0x04160201");
}

TEST_CASE("FP32 may differ by units in the last place on the host alone") {
    Rule rule;
    rule.host_ulps = 2;
    const CaseTensor file = floats({1.0f, -2.0f, 0.0f});
    const auto on = [&](bool host, std::initializer_list<float> values) {
        return difference(file, {floats(values), {}, host}, rule).has_value();
    };
    const float ulp = 0x1p-23f;
    CHECK_FALSE(on(true, {1 + 2 * ulp, -2 - 4 * ulp, 0}));
    CHECK_FALSE(on(true, {1 - ulp, -2, 0}));
    CHECK(on(true, {1 + 3 * ulp, -2, 0}));
    CHECK(on(true, {1, -2, -0.0f}));
    CHECK(on(true, {1, -2, NAN}));
    CHECK(on(false, {1 + ulp, -2, 0}));
}

TEST_CASE("FP32 within a limit, and counts up to a common multiple") {
    Rule limit;
    limit.absolute = 0.5, limit.relative = 0.25;
    CHECK(said(floats({4, -4}), floats({5.5f, -2.5f}), limit) == "equal");
    CHECK(said(floats({4, -4}), floats({5.6f, -4}), limit) != "equal");
    CHECK(said(floats({4, -4}), floats({4, NAN}), limit) != "equal");
    Rule multiple;
    multiple.multiple = true;
    const auto counts = [](std::initializer_list<std::int64_t> values) {
        CaseTensor t{"n", StoredType::I64, {3}, {1}, std::vector<std::byte>(24)};
        std::memcpy(t.values.data(), std::data(values), 24);
        return t;
    };
    CHECK(said(counts({256, 0, 384}), counts({2, 0, 3}), multiple) == "equal");
    CHECK(said(counts({2, 0, 3}), counts({2, 0, 3}), multiple) == "equal");
    CHECK(said(counts({256, 0, 383}), counts({2, 0, 3}), multiple) != "equal");
    CHECK(said(counts({256, 1, 384}), counts({2, 0, 3}), multiple) != "equal");
    CHECK(said(counts({0, 0, 0}), counts({2, 0, 3}), multiple) != "equal");
    CHECK(said(counts({256, 0, 384}), counts({2, 0, 3})) != "equal");
}

TEST_CASE("no tolerance takes infinity for a number, nor a number for infinity") {
    constexpr float infinite = std::numeric_limits<float>::infinity(), most = std::numeric_limits<float>::max();
    Rule relative, units, limits;
    relative.absolute = 0.5, relative.relative = 0.25;
    units.host_ulps = 2;
    limits.limits = {1.0, 1.0};
    for (const Rule& rule : {relative, units, limits}) {
        CHECK_FALSE(difference(floats({1, infinite}), {floats({1, infinite}), {}, true}, rule));
        CHECK(difference(floats({1, infinite}), {floats({1, most}), {}, true}, rule));
        CHECK(difference(floats({1, most}), {floats({1, infinite}), {}, true}, rule));
        CHECK(difference(floats({1, infinite}), {floats({1, -infinite}), {}, true}, rule));
    }
    const auto halves = [](std::initializer_list<int> values) {
        CaseTensor t{"h", StoredType::BF16, {2}, {1}, {}};
        for (const int v : values) t.values.insert(t.values.end(), {std::byte(v & 255), std::byte(v >> 8)});
        return t;
    };
    CHECK(said(halves({0x3f80, 0xbf80}), halves({0x3f81, 0xbf7f}), limits) == "equal");
    CHECK(said(halves({0x3f80, 0xbf80}), halves({0x3f80, 0xff80}), limits) != "equal");
    CHECK(said(halves({0x7f80, 0xbf80}), halves({0x3f80, 0xbf80}), limits) != "equal");
}

TEST_CASE("padding must be 0") {
    CHECK(said(two_rows, two_rows, {}, bytes({0, 0, 0, 0})) == "equal");
    CHECK(said(two_rows, two_rows, {}, bytes({0, 0, 7, 0})) ==
          "has the byte 0x07 in its padding (byte 2 of it), which must be 0");
}

}  // namespace
}  // namespace tessera::tool
