#include "runtime/tensor.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdint>
#include <limits>
#include <memory>
#include <numeric>
#include <vector>

#include "dsl/base/error.hpp"

using namespace tessera;
using Catch::Matchers::Contains;

TEST_CASE("a view is dense unless strides are given, and knows its bytes") {
    char byte = 0;
    const Device host;
    const TensorView v = TensorView::of(host, &byte, bf16, {3, 5, 7});
    CHECK(v.strides == Shape{35, 7, 1});
    CHECK(v.is_contiguous());
    CHECK(v.bytes() == 210);
    CHECK(v.span_bytes() == 210);

    const TensorView rows = TensorView::of(host, &byte, f32, {3, 5}, {8, 1});
    CHECK_FALSE(rows.is_contiguous());
    CHECK(rows.bytes() == 60);
    CHECK(rows.span_bytes() == (2 * 8 + 5) * 4);
    CHECK(TensorView::of(host, &byte, f32, {1, 5}, {8, 1}).is_contiguous());
    CHECK(TensorView::of(host, &byte, e2m1, {3, 6}).bytes() == 9);
    CHECK(TensorView::of(host, &byte, f32, {0, 5}, {9, 1}).span_bytes() == 0);
    CHECK(TensorView::raw(host, &byte, 12, i32).extents == Shape{3});

    CHECK_THROWS_WITH(TensorView::of(host, &byte, f32, {3, -1}), Contains("extents [3, -1]") && Contains("negative"));
    CHECK_THROWS_WITH(TensorView::of(host, &byte, f32, {3, 4}, {1}), Contains("needs as many strides, got [1]"));
}

TEST_CASE("slices move the base and stay within the tensor", "[C37]") {
    std::vector<float> data(20);
    const TensorView v = TensorView::of(Device(), data.data(), f32, {4, 5});
    const TensorView part = v.slice(0, 1, 3).slice(1, 2, 5);
    CHECK(part.data == data.data() + 7);
    CHECK(part.extents == Shape{2, 3});
    CHECK(part.strides == Shape{5, 1});
    CHECK(v.slice(1, 5, 5).count() == 0);

    CHECK_THROWS_WITH(v.slice(1, 2, 6),
                      Contains("slice [2, 6) of axis 1: the axis has positions 0 to 5 (extents [4, 5])"));
    CHECK_THROWS_WITH(v.slice(2, 0, 1), Contains("slice of axis 2"));
    CHECK_THROWS_AS(v.slice(0, 3, 2), UsageError);
    CHECK_THROWS_AS(v.slice(0, -1, 2), UsageError);

    const TensorView codes = TensorView::of(Device(), data.data(), e2m1, {4, 6});
    CHECK(codes.slice(1, 2, 6).data == reinterpret_cast<char*>(data.data()) + 1);
    CHECK_THROWS_WITH(codes.slice(1, 1, 5),
                      Contains("begins within a byte: e2m1 has 4 bits; begin at an even position"));
}

TEST_CASE("host tensors are aligned, shared by copies, and zeros are zero") {
    const Device host;
    const Tensor t = Tensor::zeros(host, bf16, {3, 100});
    CHECK(reinterpret_cast<std::uintptr_t>(t.data()) % 256 == 0);
    CHECK(t.bytes() == 600);
    CHECK(std::accumulate(t.as<std::uint16_t>(), t.as<std::uint16_t>() + 300, 0) == 0);
    const Tensor same = t;
    CHECK(same.data() == t.data());
    CHECK(Tensor::empty(host, f32, {0, 7}).data() == nullptr);

    CHECK_THROWS_WITH(Tensor::empty(host, f32, {2, -3}), Contains("extents [2, -3]"));
    constexpr std::int64_t huge = std::numeric_limits<std::int64_t>::max();
    CHECK_THROWS_WITH(Tensor::empty(host, f32, {huge, huge}), Contains("larger than any memory"));
    CHECK(Tensor::empty(host, f32, {huge, 0}).count() == 0);
}

TEST_CASE("a view is of no more than there may be, so that its numbers do not overflow") {
    const Device host;
    void* const none = nullptr;
    constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
    const auto refused = [&](Element element, const Shape& extents, const Shape& strides) {
        try {
            TensorView::of(host, none, element, extents, strides);
        } catch (const UsageError& error) {
            CHECK_THAT(error.what(), Contains("is larger than any memory; look at its extents and strides"));
            return true;
        }
        return false;
    };
    for (const Shape& extents :
         {Shape{std::int64_t{1} << 31, std::int64_t{1} << 33},  // the product wraps to 0
          Shape{std::int64_t{1} << 62, 4}, Shape{1, most}, Shape{most, most}, Shape{std::int64_t{1} << 52}})
        CHECK(refused(f32, extents, dense_strides(extents)));
    CHECK(refused(f32, {4, 4}, {most, 1}));
    CHECK(refused(f32, {4, 4}, {std::numeric_limits<std::int64_t>::min(), 1}));
    CHECK(refused(f32, {4, 4}, {std::int64_t{1} << 50, 1}));
    CHECK_FALSE(refused(f32, {std::int64_t{1} << 51}, {1}));
    CHECK_FALSE(refused(f32, {1, 4}, {most, 1}));        // no element is that far
    CHECK_FALSE(refused(f32, {most, 0}, {most, most}));  // there is none
    CHECK_FALSE(refused(f32, {4, 4}, {-(std::int64_t{1} << 40), 0}));
    for (std::int64_t bytes : {std::int64_t{-1}, most, std::int64_t{1} << 60})
        CHECK_THROWS_WITH(TensorView::raw(host, none, bytes, u8),
                          Contains("a view over " + std::to_string(bytes) + " bytes"));
}

TEST_CASE("tensors made together lie apart in one piece of memory, which lives as long as the last of them") {
    const Stream s = Device().stream();
    auto [codes, nothing, scales] = Tensor::empty_together(s, {{e4m3, {3, 100}}, {f32, {0, 7}}, {f32, {3, 2}}});
    CHECK(codes.element() == e4m3);
    CHECK(codes.extents() == Shape{3, 100});
    CHECK(scales.element() == f32);
    CHECK(scales.strides() == Shape{2, 1});
    CHECK(nothing.data() == nullptr);
    CHECK(nothing.extents() == Shape{0, 7});
    CHECK_FALSE(nothing.owner());
    CHECK(reinterpret_cast<std::uintptr_t>(codes.data()) % 256 == 0);
    CHECK(scales.as<char>() == codes.as<char>() + 512);  // 300 bytes, brought up to a multiple of 256
    const std::weak_ptr<void> memory = codes.owner();
    codes = Tensor();
    CHECK_FALSE(memory.expired());
    std::fill_n(scales.as<float>(), 6, 1.0f);
    scales = Tensor();
    CHECK(memory.expired());
    const auto none = Tensor::empty_together(s, {{f32, {0}}, {f32, {0}}});
    CHECK(none[1].data() == nullptr);
    CHECK_THROWS_WITH(Tensor::empty_together(s, {{f32, {1}}, {f32, {2, -3}}}), Contains("extents [2, -3]"));
}

TEST_CASE("data goes in and out by copies") {
    const std::vector<int> data = {1, 2, 3, 4, 5, 6};
    const Stream s = Device().stream();
    const Tensor t = Tensor::from_host(s, i32, {2, 3}, data.data());
    CHECK(std::vector<int>(t.as<int>(), t.as<int>() + 6) == data);
    CHECK(t.data() != data.data());
    const Tensor back = t.to_host(s);
    CHECK(back.data() != t.data());
    CHECK(std::vector<int>(back.as<int>(), back.as<int>() + 6) == data);
}

TEST_CASE("copies follow strides on both sides") {
    std::vector<int> from(4 * 5 * 6), to(4 * 6 * 8, -1), expected(to);
    std::iota(from.begin(), from.end(), 0);
    const Device host;
    const TensorView source = TensorView::of(host, from.data(), i32, {4, 5, 6}).slice(1, 1, 4).slice(2, 2, 4);
    const TensorView destination = TensorView::of(host, to.data(), i32, {4, 6, 8}).slice(1, 2, 5).slice(2, 0, 2);
    copy(Stream::default_of(host), destination, source);
    for (int i = 0; i < 4; ++i)
        for (int j = 0; j < 3; ++j)
            for (int k = 0; k < 2; ++k)
                expected[static_cast<std::size_t>(i * 48 + (j + 2) * 8 + k)] = i * 30 + (j + 1) * 6 + k + 2;
    CHECK(to == expected);

    // A transposed source: no axis is dense on both sides.
    std::vector<std::uint8_t> matrix = {1, 2, 3, 4, 5, 6}, turned(6);
    copy(Stream::default_of(host), TensorView::of(host, turned.data(), u8, {3, 2}),
         TensorView::of(host, matrix.data(), u8, {3, 2}, {1, 3}));
    CHECK(turned == std::vector<std::uint8_t>{1, 4, 2, 5, 3, 6});
}

TEST_CASE("copies that do not fit are refused") {
    std::vector<float> data(64);
    const Device host;
    const Stream s = Stream::default_of(host);
    const TensorView a = TensorView::of(host, data.data(), f32, {2, 3});
    const auto with = [&](Element e, Shape extents, Shape strides) {
        return TensorView::of(host, data.data() + 32, e, extents, strides);
    };
    CHECK_THROWS_WITH(copy(s, with(i32, {2, 3}, {3, 1}), a),
                      Contains("cannot copy f32 [2, 3] to i32 [2, 3]") && Contains("does not convert"));
    CHECK_THROWS_WITH(copy(s, with(f32, {3, 2}, {2, 1}), a), Contains("the extents differ"));
    CHECK_THROWS_WITH(copy(s, with(f32, {2, 3}, {0, 1}), a), Contains("repeats elements"));
    CHECK_THROWS_WITH(copy(s, a, with(f32, {2, 3}, {-3, 1})), Contains("a stride is negative"));
    CHECK_THROWS_WITH(copy(s, TensorView::of(host, static_cast<const void*>(data.data()), f32, {2, 3}), a),
                      Contains("read-only"));
    CHECK_THROWS_WITH(copy(s, TensorView::of(host, static_cast<void*>(nullptr), f32, {2, 3}), a), Contains("null"));
    // A row of three 4-bit codes ends within a byte.
    CHECK_THROWS_WITH(copy(s, with(e2m1, {2, 3}, {4, 1}), with(e2m1, {2, 3}, {4, 1})), Contains("within a byte"));
}
