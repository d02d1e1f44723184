#include <catch2/catch.hpp>
#include <cstdint>
#include <cstring>
#include <tessera/moe.hpp>
#include <tessera/runtime.hpp>
#include <vector>

// Values worked out by hand, and what is refused.

using namespace tessera;

namespace {

const Device host = Device::host();

template <class T>
Tensor on_host(Element element, const Shape& extents, const std::vector<T>& values) {
    return Tensor::from_host(host, element, extents, values.data());
}
Tensor slots_of(const Shape& extents, const std::vector<std::int32_t>& values) { return on_host(i32, extents, values); }
std::uint32_t bits_at(const Tensor& t, int i) {
    std::uint32_t bits;
    std::memcpy(&bits, t.as<const float>() + i, 4);
    return bits;
}

}  // namespace

TEST_CASE("reduce_fused rounds once a slot: a product and a sum apart would give another bit", "[moe]") {
    // (1 + 2^-12)² = 1 + 2^-11 + 2^-24; minus 1 + 2^-11 leaves 2^-24, which a rounded product has lost.
    const float a = 1.0f + 0x1p-12f, b = -(1.0f + 0x1p-11f);
    const Tensor x = on_host<float>(f32, {2, 1}, {b, a});
    moe::ReduceOptions options;
    const Tensor weights = on_host<float>(f32, {1, 2}, {1.0f, a});
    options.topk_weights = weights;
    const Tensor out = moe::reduce_fused(host.stream(), x, slots_of({1, 2}, {0, 1}), options);
    CHECK(*out.as<const float>() == 0x1p-24f);
}

TEST_CASE("reduce_fused adds slots in their order", "[moe]") {
    const Tensor x = on_host<float>(f32, {3, 1}, {1e30f, -1e30f, 1.0f});
    const Tensor out = moe::reduce_fused(host.stream(), x, slots_of({2, 3}, {0, 1, 2, 2, 0, 1}));
    CHECK(out.as<const float>()[0] == 1.0f);
    CHECK(out.as<const float>()[1] == 0.0f);
}

TEST_CASE("an empty slot of reduce_fused leaves the sign of a zero alone, also beside an infinite weight", "[moe]") {
    const Tensor x = on_host<float>(f32, {1, 1}, {-1e-30f});
    moe::ReduceOptions options;
    const Tensor weights = on_host<float>(f32, {2, 2}, {1e-30f, std::numeric_limits<float>::infinity(), 1e-30f, 1.0f});
    options.topk_weights = weights;
    const Tensor out = moe::reduce_fused(host.stream(), x, slots_of({2, 2}, {0, -1, -1, -1}), options);
    CHECK(bits_at(out, 0) == 0x80000000u);  // fma(-1e-30, 1e-30, +0) rounds to -0
    CHECK(bits_at(out, 1) == 0u);           // no slot: +0
}

TEST_CASE("a token without slots becomes -0 under a negative sf", "[moe]") {
    const Tensor x = on_host<float>(f32, {1, 3}, {1.0f, 2.0f, 3.0f});
    moe::ReduceOptions options;
    const Tensor sf = on_host<float>(f32, {1}, {-2.0f});
    options.to_e4m3 = true;
    options.sf = sf;
    const Tensor out = moe::reduce_fused(host.stream(), x, slots_of({2, 1}, {-1, 0}), options);
    const std::vector<std::uint8_t> codes(out.as<const std::uint8_t>(), out.as<const std::uint8_t>() + 6);
    CHECK(codes == std::vector<std::uint8_t>{0x80, 0x80, 0x80, 0xC0, 0xC8, 0xCC});  // -0; -2, -4, -6
}

TEST_CASE("expand_to_fused clears padding also without tokens", "[moe]") {
    const Tensor x = Tensor::empty(host, bf16, {0, 5});
    const Tensor expert = slots_of({3}, {-1, -1, -1});
    const Tensor out = on_host<std::uint16_t>(bf16, {3, 5}, std::vector<std::uint16_t>(15, 0xABCD));
    moe::expand_to_fused(host.stream(), x, Tensor::empty(host, i32, {0, 2}), expert, out);
    for (int i = 0; i < 15; ++i) CHECK(out.as<const std::uint16_t>()[i] == 0);
}

TEST_CASE("reduce_fused and expand_to_fused take nothing and give nothing", "[moe]") {
    CHECK(moe::reduce_fused(host.stream(), Tensor::empty(host, f32, {4, 8}), Tensor::empty(host, i32, {0, 6}))
              .extents() == Shape{0, 8});
    CHECK(moe::expand_to_fused(host.stream(), Tensor::empty(host, f32, {0, 8}), Tensor::empty(host, i32, {0, 6}),
                               Tensor::empty(host, i32, {0}))
              .extents() == Shape{0, 8});
}

TEST_CASE("a position past the end of the buffer is told with its token and slot", "[moe]") {
    const std::vector<std::int32_t> positions{0, -1, 2, 1, 3, 7};
    const Tensor slots = slots_of({3, 2}, positions), experts = slots_of({3}, {0, 0, 0});
    const std::string sentence = "token_topk_to_pos[2, 0] is 3, but a position is a row of the buffer";
    const Tensor x = on_host<float>(f32, {3, 2}, {1, 2, 3, 4, 5, 6}),
                 out = on_host<float>(f32, {3, 2}, {0, 0, 0, 0, 0, 0});
    CHECK_THROWS_WITH(moe::expand_to_fused(host.stream(), x, slots, experts, out),
                      Catch::Contains("kernel expand_to_fused: " + sentence));
    CHECK(out.as<const float>()[5] == 4.0f);  // the rest has been done
    CHECK_THROWS_WITH(moe::reduce_fused(host.stream(), x, slots), Catch::Contains("kernel reduce_fused: " + sentence));
    const Tensor none = Tensor::empty(host, f32, {0, 2});
    CHECK_THROWS_WITH(moe::expand_to_fused(host.stream(), x, slots, slots_of({0}, {}), none),
                      Catch::Contains("token_topk_to_pos[0, 0] is 0, but"));
}

TEST_CASE("moving rows refuses what does not fit, naming it", "[moe]") {
    const Stream s = host.stream();
    const Tensor x = Tensor::zeros(host, f32, {4, 8}), slots = Tensor::zeros(host, i32, {4, 2}),
                 expert = Tensor::zeros(host, i32, {6}), sf = Tensor::zeros(host, f32, {1});
    const auto says = [](const char* text) { return Catch::Contains(text); };
    CHECK_THROWS_WITH(moe::expand_to_fused(s, x, Tensor::zeros(host, i32, {5, 2}), expert),
                      says("token_topk_to_pos is i32 [5, 2], but 4 tokens need i32 [4, K]"));
    CHECK_THROWS_WITH(moe::expand_to_fused(s, x, Tensor::zeros(host, i64, {4, 2}), expert),
                      says("token_topk_to_pos is i64"));
    CHECK_THROWS_WITH(moe::expand_to_fused(s, x, slots, Tensor::zeros(host, i32, {6, 1})),
                      says("pos_to_expert has extents [6, 1]"));
    CHECK_THROWS_WITH(moe::expand_to_fused(s, Tensor::zeros(host, f64, {4, 8}), slots, expert), says("x is f64"));
    CHECK_THROWS_WITH(moe::expand_to_fused(s, x, slots, expert, Tensor::zeros(host, f32, {5, 8})),
                      says("out is f32 [5, 8]"));
    // An output in the input's memory would be read after it was written.
    const Tensor same = Tensor::zeros(host, f32, {64, 8}),
                 part = Tensor::adopt(same.view().slice(0, 1, 6), same.owner());
    CHECK_THROWS_WITH(moe::expand_to_fused(s, same.view().slice(0, 3, 7), slots, Tensor::zeros(host, i32, {5}), part),
                      says("expand_to_fused: out lies in the memory of x, which is read while it is written"));
    CHECK_THROWS_WITH(moe::reduce_fused(s, same, slots, same.view().slice(0, 60, 64)),
                      says("reduce_fused: out lies in the memory of x"));
    for (std::int64_t wrong : {std::int64_t{0}, (std::int64_t{1} << 40) + 1, INT64_MAX})
        CHECK_THROWS_WITH(
            moe::expand_to_fused_with_sf(s, x, Tensor::zeros(host, f32, {4, 0}), slots, expert, {wrong, false}),
            Catch::Contains("num_per_channels is " + std::to_string(wrong) + "; it is from 1 to 2^40"));
    CHECK_THROWS_WITH(moe::expand_to_fused_with_sf(s, x, Tensor::zeros(host, f32, {4, 2}), slots, expert),
                      says("x_sf is [4, 2], but [4, 8] with 128 channels a scale needs [4, 1]"));
    CHECK_THROWS_WITH(moe::expand_to_fused_with_sf(s, x, Tensor::zeros(host, i32, {4, 1}), slots, expert),
                      says("column_major_sf is false"));
    CHECK_THROWS_WITH(moe::reduce_fused(s, Tensor::zeros(host, i32, {4, 8}), slots), says("x is i32"));
    moe::ReduceOptions options;
    options.sf = sf;
    CHECK_THROWS_WITH(moe::reduce_fused(s, x, slots, options), says("set to_e4m3"));
    options = {};
    options.x_sf = sf;
    CHECK_THROWS_WITH(moe::reduce_fused(s, x, slots, options), says("x_sf is f32 [1]"));
    options = {};
    options.topk_weights = x;
    CHECK_THROWS_WITH(moe::reduce_fused(s, x, slots, options), says("topk_weights is f32 [4, 8]"));
}
