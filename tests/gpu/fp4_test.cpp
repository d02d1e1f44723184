#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "tessera/runtime.hpp"
#include "tests/emit/builder.hpp"
#include "tests/support/reference/formats.hpp"

// The conversions of packed formats, exhaustively. A thread converts 32 elements whose patterns follow from their
// position; expected codes come from the formats' definitions, by integer comparisons.

using namespace tessera;
using test::BinaryOp;
using test::Builder;
using test::Ref;

namespace {

using Word = std::uint32_t;

constexpr int per_thread = 32, threads = 128;
constexpr std::int64_t chunk = std::int64_t{1} << 28;  // elements a launch

/// Which values a conversion has to be right for.
enum class Range { all, bounded };

/// "y", of `to`, gets in element i the cast of the number with bits (start + i) · factor, packed by `pack`. A word of
/// two bf16 or f16 counts as one number and gives two elements.
ir::Program encode(Element from, Element to, int pack, Range range = Range::all) {
    Builder b(std::string("encode_") + name_of(from) + "_" + name_of(to) + "_by_" + std::to_string(pack));
    const Ref n = b.parameter(b.scalar("n", i64, threads * per_thread));
    const Ref start = b.parameter(b.scalar("start", u32)), factor = b.parameter(b.scalar("factor", u32));
    const int y = b.tensor("y", to, ir::Role::output, {n}, 16);
    b.program.grid = {b.binary(BinaryOp::div, n, b.l(threads * per_thread))};
    const Ref first =
        b.let("first", b.mul(b.add(b.mul(b.block(), b.l(threads)), b.cast(i64, b.thread())), b.l(per_thread)));
    const int numbers = bits_of(from) == 16 ? 2 : 1, step = to == e5m6 ? 8 : pack;
    for (int i = 0; i < per_thread; i += step) {
        std::vector<Ref> casts, words;
        for (int j = i; j < i + step; ++j) {
            const Ref place = b.add(b.cast(u32, b.binary(BinaryOp::div, first, b.l(numbers))),
                                    b.constant(u32, static_cast<std::uint64_t>(j / numbers)));
            const Ref bits = b.mul(b.add(start, place), factor);
            const Ref value = numbers == 2 ? b.lane(b.bitcast(from, bits, {2}), j % 2) : b.bitcast(f32, bits);
            casts.push_back(range == Range::bounded ? b.bounded_cast(to, value) : b.cast(to, value));
        }
        for (int j = 0; j < step; j += pack)
            words.push_back(pack == 1 ? casts[static_cast<std::size_t>(j)]
                                      : b.pack({casts.begin() + j, casts.begin() + j + pack}));
        b.store(Builder::global(y, b.add(first, b.l(i)), step), words);
    }
    return b.program;
}

/// "y" = the elements of "x" as `to`; `lanes` elements a load.
ir::Program decode(Element from, Element to, int lanes) {
    Builder b(std::string("decode_") + name_of(from) + "_" + name_of(to) + "_by_" + std::to_string(lanes));
    const Ref n = b.parameter(b.scalar("n", i64, threads * per_thread));
    const int x = b.tensor("x", from, ir::Role::input, {n}, 16), y = b.tensor("y", to, ir::Role::output, {n}, 16);
    b.program.grid = {b.binary(BinaryOp::div, n, b.l(threads * per_thread))};
    const Ref first =
        b.let("first", b.mul(b.add(b.mul(b.block(), b.l(threads)), b.cast(i64, b.thread())), b.l(per_thread)));
    const int pack = 32 / register_bits_of(from), out = 32 / bits_of(to);
    const int v = b.array("v", from, pack, per_thread / pack);
    for (int i = 0; i < per_thread; i += lanes)
        b.load(Builder::global(x, b.add(first, b.l(i)), lanes), v, b.i(i / pack));
    for (int i = 0; i < per_thread; i += out) {
        std::vector<Ref> casts;
        for (int j = i; j < i + out; ++j) casts.push_back(b.cast(to, b.lane(b.word(v, b.i(j / pack)), j % pack)));
        b.store(Builder::global(y, b.add(first, b.l(i)), out), {out == 1 ? casts[0] : b.pack(casts)});
    }
    return b.program;
}

CompiledKernel compiled(const ir::Program& program) {
    return Engine::of(Device::best()).compile(Program(new ir::Program(program)));
}

/// E2M1 of f32 bits: to nearest, ties to even, saturating, with the sign; NaN becomes +6.
Word e2m1_of(Word bits) {
    const Word m = bits & 0x7fffffff;
    const Word code = (m > 0x3e800000) + (m >= 0x3f400000) + (m > 0x3fa00000) + (m >= 0x3fe00000) + (m > 0x40200000) +
                      (m >= 0x40600000) + (m > 0x40a00000);
    return m > 0x7f800000 ? 7 : code | (bits >> 31) << 3;
}

/// E5M6 of f32 bits: the half nearest toward zero, cut to 12 bits, then carried by the 17 bits below.
Word e5m6_of(Word bits) {
    const Word m = bits & 0x7fffffff;
    Word half = 0x7bff;
    if (m > 0x7f800000) return 0x7ff + (1 + (bits & 0x1ffff) > 0x10000);
    if (m == 0x7f800000)
        half = 0x7c00;
    else if (m < 0x33800000)  // below 2^-24
        half = 0;
    else if (m < 0x38800000)  // below 2^-14: a subnormal half
        half = ((m & 0x7fffff) | 0x800000) >> (126 - (m >> 23));
    else if (m < 0x477fe000)
        half = (m - 0x38000000) >> 13;
    const Word code = (half | (bits >> 16 & 0x8000)) >> 4;
    return code + ((code & 1) + (bits & 0x1ffff) > 0x10000);
}

Word code_at(const std::uint8_t* data, Element type, std::int64_t i) {
    if (type == e2m1) return data[i / 2] >> (i % 2 * 4) & 15;
    Word words[3];
    std::memcpy(words, data + i / 8 * 12, 12);
    switch (i % 8) {
        case 0: return words[0] >> 20;
        case 1: return words[0] >> 8 & 0xfff;
        case 2: return (words[0] & 0xff) << 4 | words[1] >> 28;
        case 3: return words[1] >> 16 & 0xfff;
        case 4: return words[1] >> 4 & 0xfff;
        case 5: return (words[1] & 15) << 8 | words[2] >> 24;
        case 6: return words[2] >> 12 & 0xfff;
        default: return words[2] & 0xfff;
    }
}

/// Number of i in [0, n) for which wrong(i), by several threads.
template <class Fn>
std::int64_t count_wrong(std::int64_t n, const Fn& wrong) {
    constexpr int workers = 8;
    std::int64_t found[workers] = {};
    std::vector<std::thread> all;
    for (int w = 0; w < workers; ++w)
        all.emplace_back([&, w] {
            std::int64_t mine = 0;
            for (std::int64_t i = n / workers * w; i < n / workers * (w + 1); ++i) mine += wrong(i) ? 1 : 0;
            found[w] = mine;
        });
    std::int64_t total = 0;
    for (int w = 0; w < workers; ++w) all[static_cast<std::size_t>(w)].join(), total += found[w];
    return total;
}

/// Of what has no code.
constexpr Word any = ~Word{0};

/// The code where a bounded conversion has to give it.
Word bounded_e2m1_of(Word bits) {
    const Word m = bits & 0x7fffffff;
    return m < 0x40e00000 || m > 0x7f800000 ? e2m1_of(bits) : any;
}

/// The same of two halves side by side: more than eight significant bits are out of bounds.
Word bounded_e2m1_of_half(Word bits) {
    return (bits & 0x7fffffff) > 0x7f800000 || (bits & 0xffff) == 0 ? bounded_e2m1_of(bits) : any;
}

/// Converts (start + i) · factor for i in [0, n) and compares with expected(i), unless that is `any`.
template <class Fn>
std::int64_t wrong_codes(const CompiledKernel& kernel, Element to, Word start, Word factor, std::int64_t n,
                         const Fn& expected) {
    const Stream s = Stream::default_of(Device::best());
    const Tensor y = Tensor::empty(s, to, {n});
    kernel.launch(s, {y}, {Scalar("start", start), Scalar("factor", factor)});
    const Tensor host = y.to_host(s);
    const auto* data = host.as<std::uint8_t>();
    return count_wrong(n, [&](std::int64_t i) {
        const Word code = expected(i);
        return code != any && code_at(data, to, i) != code;
    });
}

struct Decoded {
    double value;  // NaN: any
    bool negative;
};

Decoded e2m1_value(Word code) {
    constexpr double values[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
    return {code < 8 ? values[code] : -values[code - 8], code >= 8};
}

Decoded e5m6_value(Word code) {
    const int exponent = static_cast<int>(code >> 6 & 31);
    const double mantissa = code & 63;
    double value = exponent == 0 ? std::ldexp(mantissa, -20) : std::ldexp(mantissa + 64, exponent - 21);
    if (exponent == 31) value = mantissa == 0 ? INFINITY : NAN;
    return {code < 0x800 ? value : -value, code >= 0x800};
}

/// Value of a code of f32, bf16, f16 or e4m3.
double real_of(Element type, const std::uint8_t* data, std::int64_t i) {
    Word bits = 0;
    const auto size = static_cast<std::size_t>(bits_of(type) / 8);
    std::memcpy(&bits, data + static_cast<std::size_t>(i) * size, size);
    if (type == f32 || type == bf16) {
        float value = 0;
        if (type == bf16) bits <<= 16;
        std::memcpy(&value, &bits, 4);
        return static_cast<double>(value);
    }
    const int fraction = type == f16 ? 10 : 3, bias = type == f16 ? 15 : 7;
    const Word magnitude = bits & (type == f16 ? 0x7fffu : 0x7fu);
    const int exponent = static_cast<int>(magnitude >> fraction);
    const double mantissa = magnitude & ((1u << fraction) - 1);
    double value = exponent == 0 ? std::ldexp(mantissa, 1 - bias - fraction)
                                 : std::ldexp(mantissa + (1 << fraction), exponent - bias - fraction);
    if (type == f16 && exponent == 31) value = mantissa == 0 ? INFINITY : NAN;
    return bits == magnitude ? value : -value;
}

/// Puts `bits` of each code where memory has it.
std::vector<std::uint8_t> packed(Element type, std::int64_t n, Word (*code)(std::int64_t)) {
    std::vector<std::uint8_t> data(static_cast<std::size_t>(n * bits_of(type) / 8));
    for (std::int64_t i = 0; type == e2m1 && i < n; ++i)
        data[static_cast<std::size_t>(i / 2)] |= static_cast<std::uint8_t>(code(i) << (i % 2 * 4));
    for (std::int64_t g = 0; type == e5m6 && g < n / 8; ++g) {
        Word v[8];
        for (int j = 0; j < 8; ++j) v[j] = code(8 * g + j);
        const Word words[] = {v[0] << 20 | v[1] << 8 | v[2] >> 4, v[2] << 28 | v[3] << 16 | v[4] << 4 | v[5] >> 8,
                              v[5] << 24 | v[6] << 12 | v[7]};
        std::memcpy(&data[static_cast<std::size_t>(12 * g)], words, 12);
    }
    return data;
}

void expect_decoded(Element from, Element to, int lanes, std::int64_t n, Word (*code)(std::int64_t),
                    Decoded (*value)(Word)) {
    INFO(name_of(from) << " to " << name_of(to) << " by " << lanes);
    const Stream s = Stream::default_of(Device::best());
    const Tensor x = Tensor::from_host(s, from, {n}, packed(from, n, code).data()), y = Tensor::empty(s, to, {n});
    compiled(decode(from, to, lanes)).launch(s, {x, y});
    const Tensor host = y.to_host(s);
    std::int64_t wrong = 0;
    for (std::int64_t i = 0; i < n; ++i) {
        const Decoded expected = value(code(i));
        const double got = real_of(to, host.as<std::uint8_t>(), i);
        if (std::isnan(expected.value))
            wrong += !std::isnan(got);
        else
            wrong += got != expected.value || std::signbit(got) != expected.negative;
    }
    CHECK(wrong == 0);
}

/// All words of two halves; `bits_of_half` gives those of the same number in f32. `middle`: around the thresholds. A
/// bounded conversion has to be right where both halves are within bounds.
void expect_pairs_encoded(Element half, Word middle, Word (*bits_of_half)(Word), Range range) {
    std::vector<Word> codes(65536);
    for (Word i = 0; i < 65536; ++i)
        codes[i] = range == Range::bounded ? bounded_e2m1_of_half(bits_of_half(i)) : e2m1_of(bits_of_half(i));
    const auto expected = [&codes](Word first) {
        return [&codes, first](std::int64_t i) -> Word {
            const Word word = first + static_cast<Word>(i / 2), low = codes[word & 0xffff], high = codes[word >> 16];
            return low == any || high == any ? any : i % 2 == 0 ? low : high;
        };
    };
    const CompiledKernel by_8 = compiled(encode(half, e2m1, 8, range));
    for (std::uint64_t start = 0; start < std::uint64_t{1} << 32; start += static_cast<std::uint64_t>(chunk / 2))
        CHECK(wrong_codes(by_8, e2m1, static_cast<Word>(start), 1, chunk, expected(static_cast<Word>(start))) == 0);
    for (const int pack : {4, 2})
        CHECK(wrong_codes(compiled(encode(half, e2m1, pack, range)), e2m1, middle, 1, 1 << 26, expected(middle)) == 0);
}

}  // namespace

TEST_CASE("every f32 becomes its e2m1") {
    for (const Range range : {Range::all, Range::bounded}) {
        const auto code_of = range == Range::bounded ? &bounded_e2m1_of : &e2m1_of;
        const CompiledKernel by_8 = compiled(encode(f32, e2m1, 8, range));
        for (std::uint64_t start = 0; start < std::uint64_t{1} << 32; start += static_cast<std::uint64_t>(chunk)) {
            const Word first = static_cast<Word>(start);
            CHECK(wrong_codes(by_8, e2m1, first, 1, chunk,
                              [=](std::int64_t i) { return code_of(first + static_cast<Word>(i)); }) == 0);
        }
        for (const int pack : {4, 2})
            CHECK(wrong_codes(compiled(encode(f32, e2m1, pack, range)), e2m1, 0x3e000000, 1, 1 << 26,
                              [=](std::int64_t i) { return code_of(0x3e000000 + static_cast<Word>(i)); }) == 0);
    }
}

TEST_CASE("every pair of bf16 becomes its e2m1") {
    for (const Range range : {Range::all, Range::bounded})
        expect_pairs_encoded(bf16, 0x3e000000, [](Word code) { return code << 16; }, range);
}

TEST_CASE("every pair of f16 becomes its e2m1") {
    const auto bits_of_half = [](Word code) -> Word {
        const Word sign = code >> 15 << 31, exponent = code >> 10 & 31, mantissa = code & 0x3ff;
        if (exponent == 31) return sign | 0x7f800000u | mantissa << 13;
        if (exponent != 0) return sign | (exponent + 112) << 23 | mantissa << 13;
        const float subnormal = std::ldexp(static_cast<float>(mantissa), -24);
        Word bits = 0;
        std::memcpy(&bits, &subnormal, 4);
        return sign | bits;
    };
    for (const Range range : {Range::all, Range::bounded}) expect_pairs_encoded(f16, 0x34000000, bits_of_half, range);
}

TEST_CASE("f32 becomes e5m6: a sixteenth of all patterns, spread evenly") {
    constexpr Word factor = 2654435761u;
    for (const int pack : {1, 2})
        CHECK(wrong_codes(compiled(encode(f32, e5m6, pack)), e5m6, 0, factor, chunk,
                          [](std::int64_t i) { return e5m6_of(static_cast<Word>(i) * factor); }) == 0);
}

TEST_CASE("every bf16 becomes its e5m6") {
    CHECK(wrong_codes(compiled(encode(bf16, e5m6, 2)), e5m6, 0, 0x00010001u, 1 << 17,
                      [](std::int64_t i) { return e5m6_of(static_cast<Word>(i / 2) << 16); }) == 0);
}

TEST_CASE("every f16 becomes its e4m3, in words of two") {
    constexpr std::int64_t n = 1 << 17;
    std::vector<std::uint16_t> codes(n);
    for (std::int64_t i = 0; i < n; ++i)
        codes[static_cast<std::size_t>(i)] = static_cast<std::uint16_t>(i * 40503 + (i >> 16));
    const Stream s = Stream::default_of(Device::best());
    const Tensor x = Tensor::from_host(s, f16, {n}, codes.data()), y = Tensor::empty(s, e4m3, {n});
    compiled(decode(f16, e4m3, 8)).launch(s, {x, y});
    const Tensor host = y.to_host(s);
    CHECK(count_wrong(n, [&](std::int64_t i) {
              const double value = real_of(f16, reinterpret_cast<const std::uint8_t*>(codes.data()), i);
              return host.as<std::uint8_t>()[i] != reference::e4m3_nearest(static_cast<float>(value));
          }) == 0);
}

TEST_CASE("every code of e2m1 and e5m6 is decoded, in every place") {
    for (const Element to : {f32, bf16, f16, e4m3})
        for (const int lanes : {8, 16, 32})
            expect_decoded(
                e2m1, to, lanes, 1 << 20,
                [](std::int64_t i) { return (static_cast<Word>(i / 8) * 2654435761u >> (i % 8 * 4)) & 15; },
                e2m1_value);
    for (const Element to : {f32, bf16, f16})
        for (const int lanes : {8, 16, 32})
            expect_decoded(
                e5m6, to, lanes, 1 << 17,
                [](std::int64_t i) { return static_cast<Word>(i / 8 + 521 * (i % 8)) & 0xfff; }, e5m6_value);
}
