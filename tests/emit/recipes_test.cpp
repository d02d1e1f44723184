#include "tests/emit/recipes.hpp"

#include <catch2/catch.hpp>
#include <random>
#include <vector>

// The recipes against the formats' definitions. (That the device does the same is tested on a GPU.)

namespace device = tessera::test::device;
using device::u32;

namespace {

constexpr double e2m1_values[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};

/// By thresholds: to nearest, ties to even, saturating, with the sign; NaN becomes +6.
u32 e2m1_by_definition(float x) {
    if (std::isnan(x)) return 7;
    const double m = std::fabs(static_cast<double>(x));
    const int code = (m > 0.25) + (m >= 0.75) + (m > 1.25) + (m >= 1.75) + (m > 2.5) + (m >= 3.5) + (m > 5);
    return static_cast<u32>(code) | (std::signbit(x) ? 8u : 0u);
}

u32 e5m6_by_definition(float x) {
    const u32 c = device::f16_toward_zero(x) >> 4;
    return (c & 1) + (device::float_as_uint(x) & 0x1ffff) > 0x10000 ? c + 1 : c;
}

/// Every 1021st pattern, those from 1/8 to 8 more densely, midpoints and codes with their neighbours, specials.
std::vector<float> f32_inputs() {
    std::vector<float> all;
    for (std::uint64_t b = 0; b < std::uint64_t{1} << 32; b += 1021)
        all.push_back(device::uint_as_float(static_cast<u32>(b)));
    for (u32 b = 0x3e000000; b < 0x41000000; b += 37) all.push_back(device::uint_as_float(b | (b & 1) << 31));
    for (const double x : {0.0, 0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 5.0, 6.0, 7.0})
        for (const u32 sign : {0u, 0x80000000u})
            for (u32 d = 0; d < 7; ++d) {
                const u32 b = device::float_as_uint(static_cast<float>(x)) + d - 3;
                if (x != 0 || d >= 3) all.push_back(device::uint_as_float(b | sign));
            }
    for (const u32 b : {0x7f800000u, 0x7f7fffffu, 0x7fc00000u, 0x7fffffffu, 0x7f800001u, 0x00800000u, 0x007fffffu, 1u})
        for (const u32 sign : {0u, 0x80000000u}) all.push_back(device::uint_as_float(b | sign));
    while (all.size() % 8 != 0) all.push_back(0);
    return all;
}

}  // namespace

TEST_CASE("recipes: f32 to e2m1, in every place of a word") {
    const std::vector<float> inputs = f32_inputs();
    REQUIRE(inputs.size() > 5'000'000);
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < inputs.size(); i += 8) {
        u32 expected = 0;
        for (std::size_t j = 0; j < 8; ++j) expected |= e2m1_by_definition(inputs[i + j]) << (4 * j);
        wrong += device::e2m1_from_f32(&inputs[i], 8) != expected;
        wrong += device::e2m1_from_f32(&inputs[i], 4) != (expected & 0xffff);
        wrong += device::e2m1_from_f32(&inputs[i], 2) != (expected & 0xff);
        wrong += device::e2m1_from_f32(&inputs[i], 1) != (expected & 0xf);
    }
    CHECK(wrong == 0);
}

TEST_CASE("recipes: every bf16 to e2m1, in every place of a word") {
    std::size_t wrong = 0;
    for (u32 i = 0; i < 65536; ++i) {
        u32 words[4], expected = 0;
        for (u32 j = 0; j < 8; ++j) {
            const u32 value = (i * (2 * j + 1) * 9363 + j * 12345) & 0xffff;  // for each j a permutation of all
            words[j / 2] = j % 2 == 0 ? value : words[j / 2] | value << 16;
            expected |= e2m1_by_definition(device::uint_as_float(value << 16)) << (4 * j);
        }
        wrong += device::e2m1x8_from_bf16(words[0], words[1], words[2], words[3]) != expected;
        wrong += device::e2m1x4_from_bf16(words[0], words[1]) != (expected & 0xffff);
        wrong += device::e2m1x2_from_bf16(words[0]) != (expected & 0xff);
    }
    CHECK(wrong == 0);
}

TEST_CASE("recipes: every f16 to e2m1, in every place of a word") {
    std::size_t wrong = 0;
    for (u32 i = 0; i < 65536; ++i) {
        u32 words[4], expected = 0;
        for (u32 j = 0; j < 8; ++j) {
            const u32 value = (i * (2 * j + 1) * 9363 + j * 12345) & 0xffff;  // for each j a permutation of all
            words[j / 2] = j % 2 == 0 ? value : words[j / 2] | value << 16;
            const float sign = value >= 0x8000 ? -1.0f : 1.0f;
            const float x = (value & 0x7fff) > 0x7c00    ? NAN
                            : (value & 0x7fff) == 0x7c00 ? sign * INFINITY
                                                         : static_cast<float>(device::real_of_f16(value));
            expected |= e2m1_by_definition(x) << (4 * j);
        }
        wrong += device::e2m1x8_from_f16(words[0], words[1], words[2], words[3]) != expected;
        wrong += device::e2m1x2_from_f16(words[0]) != (expected & 0xff);
    }
    CHECK(wrong == 0);
}

TEST_CASE("recipes: below 7 and for NaN, e2m1 needs no clamp from below") {
    std::size_t wrong = 0, seen = 0;
    for (const float x : f32_inputs()) {
        if (std::fabs(x) >= 7) continue;
        ++seen;
        wrong += device::e2m1_from_f32(&x, 1, device::Clamp::above) != e2m1_by_definition(x);
    }
    for (u32 half = 0; half < 65536; ++half) {
        const float brain = device::uint_as_float(half << 16);
        if (!(std::fabs(brain) >= 7)) {
            const u32 expected = e2m1_by_definition(brain) * 17;
            wrong += device::e2m1x2_from_bf16(half | half << 16, device::Clamp::above) != expected;
        }
        if ((half & 0x7fff) < 0x4700 || (half & 0x7fff) > 0x7c00) {
            const float x = (half & 0x7fff) > 0x7c00 ? NAN : static_cast<float>(device::real_of_f16(half));
            wrong += device::e2m1x2_from_f16(half | half << 16, device::Clamp::above) != e2m1_by_definition(x) * 17;
        }
    }
    CHECK(seen > 2'000'000);
    CHECK(wrong == 0);
    const float below = -9;
    CHECK(device::e2m1_from_f32(&below, 1, device::Clamp::above) != e2m1_by_definition(below));  // so the bound matters
}

TEST_CASE("recipes: codes looked up in tables of any bits, in every place of a word") {
    std::mt19937 random(17);
    std::size_t wrong = 0;
    for (int round = 0; round < 100'000; ++round) {
        const auto word = [&] { return static_cast<u32>(random()); };
        const u32 codes = word(), low = word(), high = word(), keep = word() % 2;
        const auto code = [&](int i) { return codes >> (4 * i) & 15; };
        const auto byte = [&](int i) { return (code(i) % 8 < 4 ? low : high) >> (code(i) % 4 * 8) & 255; };
        u32 nibbles = 0;
        for (int i = 0; i < 8; ++i) nibbles |= ((low >> (code(i) % 8 * 4) & 15) ^ (keep * (code(i) & 8))) << (4 * i);
        wrong += device::e2m1x8_lookup(codes, low, keep * 0x88888888u) != nibbles;
        wrong += device::e2m1_lookup(codes, low, keep * 8u) != (nibbles & 15);
        for (int half = 0; half < 2; ++half) {
            u32 bytes = 0, with_signs = 0;
            for (int i = 0; i < 4; ++i) {
                bytes |= byte(4 * half + i) << (8 * i);
                with_signs |= (byte(4 * half + i) ^ (keep * (code(4 * half + i) & 8) << 4)) << (8 * i);
            }
            wrong += device::u8x4_lookup(codes, half, low, high) != bytes;
            wrong += device::e4m3x4_lookup(codes, half, low, high, keep * 0x80808080u) != with_signs;
        }
        wrong += device::u8_lookup(codes, low, high) != byte(0);
        wrong += device::e4m3_lookup(codes, low, high, keep * 8u) != (byte(0) ^ (keep * (code(0) & 8) << 4));
    }
    CHECK(wrong == 0);
}

TEST_CASE("recipes: e2m1 to bf16, f16, f32 and e4m3, every pair of codes in every place") {
    constexpr u32 e4m3[] = {0x00, 0x30, 0x38, 0x3c, 0x40, 0x44, 0x48, 0x4c};
    for (u32 place = 0; place < 4; ++place)
        for (u32 codes = 0; codes < 256; ++codes)
            for (const u32 rest : {0u, 0xffffffffu, 0x93a5c61eu}) {
                const int at = static_cast<int>(8 * place);
                const u32 word = (rest & ~(0xffu << at)) | codes << at;
                const u32 brain = device::bf16x2_from_e2m1(word, place), half = device::f16x2_from_e2m1(word, place);
                const u32 bytes = device::e4m3x4_from_e2m1(word, place / 2) >> (16 * (place % 2));
                for (int i = 0; i < 2; ++i) {
                    const u32 code = codes >> (4 * i) & 15;
                    const double value = code < 8 ? e2m1_values[code] : -e2m1_values[code - 8];
                    const auto same = [&](double x) { return x == value && std::signbit(x) == (code >= 8); };
                    CHECK(same(device::real_of_bf16(brain >> (16 * i) & 0xffff)));
                    CHECK(same(device::real_of_f16(half >> (16 * i) & 0xffff)));
                    CHECK(same(static_cast<double>(device::f32_from_e2m1(word, static_cast<int>(2 * place) + i))));
                    CHECK((bytes >> (8 * i) & 0xff) == (e4m3[code & 7] | (code & 8) << 4));
                }
            }
}

TEST_CASE("recipes: f32 to e5m6, alone and in pairs") {
    const struct {
        u32 bits, code;
    } known[] = {{0x3f800000, 0x3c0}, {0x477e0000, 0x7bf}, {0xc0000000, 0xc00}, {0x3f810000, 0x3c0},
                 {0x3f830000, 0x3c2}, {0x35800000, 0x001}, {0x387c0000, 0x03f}, {0x38800000, 0x040},
                 {0x35000000, 0x000}, {0x35c00000, 0x001}, {0x36400000, 0x003}, {0x30818001, 0x001},
                 {0x30810000, 0x000}, {0x80000000, 0x800}, {0x7f800000, 0x7c0}, {0xff800000, 0xfc0}};
    for (const auto& [bits, code] : known) {
        INFO(std::hex << bits);
        CHECK(device::e5m6_from_f32(device::uint_as_float(bits)) == code);
    }
    std::vector<float> inputs = f32_inputs();
    for (u32 c = 0; c < 0x7c0; ++c)  // every code, every midpoint, and what lies beside them
        for (const u32 half : {0u, 8u})
            for (u32 d = 0; d < 5; ++d)
                inputs.push_back(device::uint_as_float(
                    device::float_as_uint(static_cast<float>(device::real_of_f16(c << 4 | half))) + d - 2));
    std::size_t wrong = 0;
    for (std::size_t i = 0; i + 1 < inputs.size(); ++i) {
        const u32 low = e5m6_by_definition(inputs[i]), high = e5m6_by_definition(inputs[i + 1]);
        wrong += device::e5m6_from_f32(inputs[i]) != low;
        wrong += device::e5m6x2_from_f32(inputs[i], inputs[i + 1]) != (low | high << 16);
        wrong += low > 0xfff;
    }
    CHECK(wrong == 0);
}

TEST_CASE("recipes: e5m6 in memory") {
    const u32 known[4] = {0x07bf03c0, 0x03c00c00, 0x000103c2, 0x0040003f};
    const u32 expected[3] = {0x3c07bfc0, 0x03c03c20, 0x0103f040};
    u32 words[3], back[4];
    device::join_e5m6x8(words, known);
    for (int i = 0; i < 3; ++i) CHECK(words[i] == expected[i]);
    std::mt19937 random(7);
    std::size_t wrong = 0;
    for (int round = 0; round < 100'000; ++round) {
        u32 v[8], pairs[4];
        for (u32& code : v) code = random() & 0xfff;
        for (int i = 0; i < 4; ++i) pairs[i] = v[2 * i] | v[2 * i + 1] << 16;
        device::join_e5m6x8(words, pairs);
        wrong += words[0] != (v[0] << 20 | v[1] << 8 | v[2] >> 4);
        wrong += words[1] != ((v[2] & 0xf) << 28 | v[3] << 16 | v[4] << 4 | v[5] >> 8);
        wrong += words[2] != ((v[5] & 0xff) << 24 | v[6] << 12 | v[7]);
        device::split_e5m6x8(back, words);
        for (int i = 0; i < 4; ++i) wrong += back[i] != pairs[i];
    }
    CHECK(wrong == 0);
}

TEST_CASE("recipes: bounded division has the bits of division, whatever the reciprocal's last bit") {
    std::mt19937 random(11);
    std::size_t wrong = 0;
    for (int round = 0; round < 1'000'000; ++round) {
        const auto number = [&](int spread) {
            const int exponent = static_cast<int>(random() % static_cast<u32>(2 * spread + 1)) - spread;
            return std::ldexp(1.0f + static_cast<float>(random() & 0x7fffff) * 0x1p-23f, exponent);
        };
        const float b = number(49), a = (random() & 1) != 0 ? -number(49) : number(49);
        for (const int error : {-1, 0, 1}) wrong += device::divide_bounded(a, b, error) != a / b;
    }
    CHECK(wrong == 0);
    for (const int error : {-1, 0, 1}) {
        CHECK(device::float_as_uint(device::divide_bounded(-0.0f, 3.0f, error)) == 0x80000000u);
        CHECK(device::float_as_uint(device::divide_bounded(0.0f, 3.0f, error)) == 0u);
    }
}
