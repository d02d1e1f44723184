#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <tessera/quant.hpp>
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
std::uint32_t sf_bits(const quant::Quantized& q, int i) {
    std::uint32_t bits;
    std::memcpy(&bits, q.sf.as<const float>() + i, 4);
    return bits;
}
std::uint8_t code(const quant::Quantized& q, int i) { return q.data.as<const std::uint8_t>()[i]; }
/// Rows in this order.
quant::FusedChannelCastOptions ordered(const TensorView& rows, bool round = false) {
    quant::FusedChannelCastOptions options;
    options.round_sf = round;
    options.pos_to_token = rows;
    return options;
}

}  // namespace

TEST_CASE("a pair is decoded before it is quantized", "[channel]") {
    const Tensor q = on_host<std::uint8_t>(e4m3, {2, 1}, {0x7D, 0x57});  // 416 and 15
    const Tensor scales = on_host<float>(f32, {2, 1}, {2.0f, 4.0f});
    const quant::Quantized out = quant::per_channel_cast_fused(host.stream(), quant::QuantizedView{q, scales});
    CHECK(sf_bits(out, 0) == 0x3FEDB6DBu);  // 832 / 448
    CHECK(code(out, 0) == 0x7E);
    CHECK(code(out, 1) == 0x60);  // 60 · 448 / 832 = 32.3 → 32
}

TEST_CASE("rows without a token are +0, and a block of them has the smallest scale", "[channel]") {
    const Tensor x = on_host<float>(f32, {1, 2}, {-3.0f, 448.0f});
    std::vector<std::int32_t> order(256, -1);
    order[130] = 0;
    const Tensor pos = on_host<std::int32_t>(i32, {256}, order);
    for (const bool round : {false, true}) {
        const quant::Quantized q = quant::per_channel_cast_fused(host.stream(), x.view(), ordered(pos, round));
        CHECK(sf_bits(q, 0) == (round ? 105u << 23 : 0x346FACADu));
        CHECK(sf_bits(q, 1) == sf_bits(q, 0));
        CHECK(sf_bits(q, 3) == 0x3F800000u);
        for (int row = 0; row < 256; ++row)
            if (row != 130) CHECK((code(q, 2 * row) == 0 && code(q, 2 * row + 1) == 0));
        CHECK(code(q, 261) == 0x7E);
    }
}

TEST_CASE("a partial last block counts its own rows only", "[channel]") {
    std::vector<float> values(160, 448.0f);
    for (int i = 128; i < 160; ++i) values[i] = 1.0f;
    const Tensor x = on_host<float>(f32, {160, 1}, values);
    const quant::Quantized q = quant::per_channel_cast(host.stream(), x, {128, true});
    CHECK(sf_bits(q, 0) == 0x3F800000u);
    CHECK(sf_bits(q, 1) == 119u << 23);  // amax 1 → byte 119, inv 256
    CHECK(code(q, 159) == 0x78);         // 256
    const quant::Quantized turned = quant::per_channel_cast_and_transpose(host.stream(), x, {32, true});
    CHECK(turned.data.extents() == Shape{1, 160});
    CHECK(turned.sf.extents() == Shape{5, 1});
    CHECK(code(turned, 0) == 0x7E);
    CHECK(code(turned, 159) == 0x78);
}

TEST_CASE("NaN and infinities stay in their channel", "[channel]") {
    const float nan = std::numeric_limits<float>::quiet_NaN(), inf = std::numeric_limits<float>::infinity();
    const Tensor x = on_host<float>(f32, {2, 3}, {nan, inf, 1.0f, 448.0f, 5.0f, -448.0f});
    const quant::Quantized q = quant::per_channel_cast(host.stream(), x);
    CHECK(code(q, 0) == 0x7F);
    CHECK(code(q, 3) == 0x7E);
    CHECK(sf_bits(q, 0) == 0x3F800000u);
    CHECK(code(q, 1) == 0x7F);  // inf · 0
    CHECK(code(q, 4) == 0x00);
    CHECK(sf_bits(q, 1) == 0x7F800000u);
    CHECK(code(q, 5) == 0xFE);
}

TEST_CASE("a row that x does not have is told, and read as none", "[channel]") {
    const Tensor x = on_host<float>(f32, {3, 2}, {1, 2, 3, 4, 5, 6});
    std::vector<std::int32_t> order(160, -1);
    order[5] = 2, order[130] = 3, order[131] = 1000000;
    const Tensor pos = on_host<std::int32_t>(i32, {160}, order);
    const quant::FusedChannelCastOptions options = ordered(pos);
    CHECK_THROWS_WITH(quant::per_channel_cast_fused(host.stream(), x.view(), options),
                      Catch::Contains("pos_to_token[130] is 3, but an entry is a row of x"));
    const Tensor q = on_host<std::uint8_t>(e4m3, {3, 2}, {1, 2, 3, 4, 5, 6}),
                 sf = on_host<float>(f32, {3, 1}, {1, 1, 1});
    CHECK_THROWS_WITH(quant::per_channel_cast_fused(host.stream(), quant::QuantizedView{q, sf}, options),
                      Catch::Contains("pos_to_token[130] is 3, but an entry is a row of x"));
}

TEST_CASE("channel casts take no rows", "[channel]") {
    const Tensor none = Tensor::empty(host, bf16, {0, 5});
    CHECK(quant::per_channel_cast(host.stream(), none).sf.extents() == Shape{0, 5});
    CHECK(quant::per_channel_cast_and_transpose(host.stream(), none).data.extents() == Shape{5, 0});
    const Tensor order = Tensor::empty(host, i32, {0});
    const Tensor x = Tensor::zeros(host, bf16, {4, 5});
    CHECK(quant::per_channel_cast_fused(host.stream(), x.view(), ordered(order)).data.extents() == Shape{0, 5});
}

TEST_CASE("channel casts refuse what does not fit, naming it", "[channel]") {
    const Stream s = host.stream();
    const Tensor x = Tensor::zeros(host, bf16, {4, 8});
    const auto says = [](const char* text) { return Catch::Contains(text); };
    CHECK_THROWS_WITH(quant::per_channel_cast(s, x, {64, false}), says("num_per_tokens is 64; it is 32 or 128"));
    CHECK_THROWS_WITH(quant::per_channel_cast(s, Tensor::zeros(host, i32, {4, 8})), says("x is i32"));
    CHECK_THROWS_WITH(
        quant::per_channel_cast(s, x, Tensor::zeros(host, e4m3, {8, 4}), Tensor::zeros(host, f32, {1, 8})),
        says("data is e4m3 [8, 4]"));
    CHECK_THROWS_WITH(
        quant::per_channel_cast(s, x, Tensor::zeros(host, e4m3, {4, 8}), Tensor::zeros(host, f32, {8, 1})),
        says("sf is f32 [8, 1]"));
    const Tensor wide = Tensor::zeros(host, i64, {4});
    CHECK_THROWS_WITH(quant::per_channel_cast_fused(s, x.view(), ordered(wide)), says("pos_to_token is i64 [4]"));
    const Tensor q = Tensor::zeros(host, e2m1, {4, 8}), sf = Tensor::zeros(host, f32, {4, 1});
    CHECK_THROWS_WITH(quant::per_channel_cast_fused(s, quant::QuantizedView{q, sf}), says("a quantized x is e4m3"));
}
