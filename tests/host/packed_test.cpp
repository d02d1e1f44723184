#include "packed.hpp"

#include <catch2/catch.hpp>
#include <cmath>
#include <random>

// Memory of elements that share bytes: e2m1, two a byte, and e5m6, eight in twelve bytes.

using namespace host_test;
using Bytes = std::vector<std::uint8_t>;

namespace {

struct Form {
    Element type;
    int lanes, pack;
};
const Form forms[] = {{e2m1, 2, 2},  {e2m1, 4, 4},  {e2m1, 4, 2},  {e2m1, 8, 8}, {e2m1, 16, 8},
                      {e2m1, 32, 8}, {e2m1, 32, 2}, {e5m6, 8, 1},  {e5m6, 8, 2}, {e5m6, 16, 2},
                      {e5m6, 32, 2}, {e5m6, 32, 1}, {e2m1, 16, 4}, {e2m1, 8, 1}, {e5m6, 16, 1}};

/// The elements of `in`, 8 a thread, cast to another type.
Bytes converted(Element from, int from_pack, Element to, int to_pack, const Bytes& in) {
    Builder b("convert", threads);
    const int count = 8 * threads;
    const int x = b.vector_tensor("x", from, b.i64c(count)), y = b.vector_tensor("y", to, b.i64c(count));
    b.grid({b.i64c(1)});
    const Ref first = b.let(b.mul(b.thread64(), b.i64c(8)));
    const int r = b.array("r", from, from_pack, 8 / from_pack);
    b.load(global(x, first, 8), r, 0);
    std::vector<Ref> elements, words;
    for (int i = 0; i < 8; ++i) {
        const Ref word = b.cast(to, b.word(r, i / from_pack));
        elements.push_back(from_pack == 1 ? word : b.lane(word, i % from_pack));
    }
    for (int i = 0; i < 8; i += to_pack)
        words.push_back(to_pack == 1 ? elements[static_cast<std::size_t>(i)]
                                     : b.pack({elements.begin() + i, elements.begin() + i + to_pack}));
    b.store(global(y, first, 8), words);
    const Memory source(in.size(), 0, 0), target(static_cast<std::size_t>(count * 8), 0, 0);
    std::copy(in.begin(), in.end(), source.first);
    b.executable().run({{source.first, target.first}, {}});
    return {target.first, target.first + count * bits_of(to) / 8};
}

template <class T>
Bytes repeated(const std::vector<T>& values, std::size_t times) {
    Bytes bytes(values.size() * sizeof(T) * times);
    for (std::size_t i = 0; i < times; ++i)
        std::memcpy(bytes.data() + i * values.size() * sizeof(T), values.data(), values.size() * sizeof(T));
    return bytes;
}

/// The rule of the format, by thresholds on the magnitude.
int e2m1_of(float x) {
    const float a = std::fabs(x);
    const int code = (a > 0.25f) + (a >= 0.75f) + (a > 1.25f) + (a >= 1.75f) + (a > 2.5f) + (a >= 3.5f) + (a > 5);
    return x != x ? 7 : code + (std::signbit(x) ? 8 : 0);
}

}  // namespace

TEST_CASE("copies of packed elements move all bytes of the range and no others", "[host]") {
    std::mt19937 random(3);
    for (const Form& f : forms) {
        const int packed = packed_elements_of(f.type), group = packed * bits_of(f.type) / 8;
        const PackedCopy copy(f.type, f.lanes, f.pack);
        const auto run = copy.b.executable();
        for (int vectors : {1, 5, threads}) {
            const auto bytes = static_cast<std::size_t>(vectors * f.lanes / packed * group);
            const Memory x(bytes + 64, 0, 0), y(bytes + 64, 0, 0x5A);
            for (std::size_t i = 0; i < bytes; ++i) x.first[i] = static_cast<std::uint8_t>(random());
            for (bool check : {true, false}) {
                INFO(name_of(f.type) << " lanes " << f.lanes << " pack " << f.pack << " vectors " << vectors);
                std::fill(y.first, y.first + bytes + 64, std::uint8_t{0x5A});
                run.run({{x.first, y.first}, {static_cast<std::uint64_t>(vectors * f.lanes)}},
                        {.check = check, .workers = 1});
                CHECK(std::equal(x.first, x.first + bytes, y.first));
                CHECK(std::all_of(y.first + bytes, y.first + bytes + 64, [](std::uint8_t v) { return v == 0x5A; }));
            }
        }
    }
}

TEST_CASE("the low nibble of a byte of e2m1 comes first", "[host]") {
    const std::vector<float> values = {0.5f, -6, 3, -0.0f, 1.5f, 2, -4, 1};
    const std::vector<std::uint8_t> codes = {0xF1, 0x85, 0x43, 0x2E};
    const Bytes floats = repeated(values, threads), packed = repeated(codes, threads);
    CHECK(converted(f32, 1, e2m1, 8, floats) == packed);
    CHECK(converted(f32, 1, e2m1, 2, floats) == packed);
    CHECK(converted(f32, 1, e2m1, 1, floats) == packed);
    CHECK(converted(e2m1, 8, f32, 1, packed) == floats);
    CHECK(converted(e2m1, 4, f32, 1, packed) == floats);
    const std::vector<std::uint8_t> e4m3_codes = {0x30, 0xCC, 0x44, 0x80, 0x3C, 0x40, 0xC8, 0x38};
    CHECK(converted(e2m1, 8, e4m3, 4, packed) == repeated(e4m3_codes, threads));
    const std::vector<std::uint16_t> bf16_codes = {0x3F00, 0xC0C0, 0x4040, 0x8000, 0x3FC0, 0x4000, 0xC080, 0x3F80};
    CHECK(converted(e2m1, 2, bf16, 2, packed) == repeated(bf16_codes, threads));
}

TEST_CASE("eight e5m6 values make three words as the format lays them out", "[host]") {
    const std::vector<float> values = {1, 65024, -2, 1 + 1 / 128.0f, 1 + 3 / 128.0f, 0x1p-20f, 63 * 0x1p-20f, 0x1p-14f};
    const std::vector<std::uint8_t> memory = {0xC0, 0xBF, 0x07, 0x3C, 0x20, 0x3C, 0xC0, 0x03, 0x40, 0xF0, 0x03, 0x01};
    const Bytes packed = repeated(memory, threads);
    CHECK(converted(f32, 1, e5m6, 2, repeated(values, threads)) == packed);
    CHECK(converted(f32, 1, e5m6, 1, repeated(values, threads)) == packed);
    std::vector<float> decoded = values;
    decoded[3] = 1;
    decoded[4] = 1 + 2 / 64.0f;
    CHECK(converted(e5m6, 2, f32, 1, packed) == repeated(decoded, threads));
    CHECK(converted(e5m6, 1, f32, 1, packed) == repeated(decoded, threads));
    const std::vector<std::uint16_t> bf16_codes = {0x3F80, 0x477E, 0xC000, 0x3F80, 0x3F84, 0x3580, 0x387C, 0x3880};
    CHECK(converted(e5m6, 2, bf16, 2, packed) == repeated(bf16_codes, threads));
}

TEST_CASE("each of eight e5m6 values keeps its place", "[host]") {
    for (std::size_t place = 0; place < 8; ++place) {
        std::vector<float> values(8, 0.0f);
        values[place] = -126 * 0x1p5f;  // code 0xABC… of no symmetry: sign, exponent 26, mantissa 62
        // From the format's table: where the bytes with value bits [11:8], [11:4], [7:0], [3:0] stand.
        constexpr std::uint16_t code = 0x800 | 26 << 6 | 62;
        std::uint32_t w[3] = {0, 0, 0};
        constexpr int top[8] = {31, 19, 7, 27, 15, 3, 23, 11}, word[8] = {0, 0, 0, 1, 1, 1, 2, 2};
        for (int bit = 0; bit < 12; ++bit) {
            if ((code >> (11 - bit) & 1) == 0) continue;
            int at = top[place] - bit, in = word[place];
            if (at < 0) at += 32, ++in;
            w[in] |= 1u << at;
        }
        const std::vector<std::uint32_t> words(w, w + 3);
        CHECK(converted(f32, 1, e5m6, 2, repeated(values, threads)) == repeated(words, threads));
        CHECK(converted(e5m6, 2, f32, 1, repeated(words, threads)) == repeated(values, threads));
    }
}

TEST_CASE("casts of all bf16 values to e2m1 follow the thresholds", "[host]") {
    int wrong = 0;
    for (std::uint32_t start = 0; start < 0x10000; start += threads * 8) {
        std::vector<std::uint16_t> values(threads * 8);
        std::vector<float> wide(threads * 8);
        for (std::uint32_t i = 0; i < threads * 8; ++i) {
            values[i] = static_cast<std::uint16_t>(start + i);
            wide[i] = convert::real((start + i) << 16);
        }
        const Bytes from_bf16 = converted(bf16, 2, e2m1, 8, repeated(values, 1));
        const Bytes from_f32 = converted(f32, 1, e2m1, 8, repeated(wide, 1));
        for (std::size_t i = 0; i < wide.size(); i += 2)
            wrong += from_bf16[i / 2] != (e2m1_of(wide[i]) | e2m1_of(wide[i + 1]) << 4);
        wrong += from_bf16 != from_f32;
    }
    CHECK(wrong == 0);
}

TEST_CASE("packed elements move between words, lanes and signs", "[host]") {
    Builder b("moves", threads);
    const int x = b.vector_tensor("x", e2m1, b.i64c(8 * threads)), y = b.vector_tensor("y", e2m1, b.i64c(8 * threads));
    b.grid({b.i64c(1)});
    const Ref first = b.mul(b.thread64(), b.i64c(8));
    const int r = b.array("r", e2m1, 8, 1), half = b.array("half", e2m1, 4, 2);
    b.load(global(x, first, 8), r, 0);
    std::vector<Ref> back;
    for (int i = 7; i >= 0; --i) back.push_back(b.lane(b.word(r, 0), i));
    b.set(half, 0, b.abs(b.pack({back.begin(), back.begin() + 4})));
    b.set(half, 1, b.unary(ir::UnaryOp::neg, b.pack({back.begin() + 4, back.end()})));
    const Ref odd = b.op(BinaryOp::eq, b.op(BinaryOp::mod, b.thread(), b.i32c(2)), b.i32c(1));
    b.store(global(y, first, 8), {b.select(odd, b.constant(e2m1, 0x6, 4), b.word(half, 0)), b.word(half, 1)});
    const std::vector<std::uint8_t> in = {0xF1, 0x85, 0x43, 0x2E};
    const Memory xs(4 * threads, 0, 0), ys(4 * threads, 0, 0);
    for (std::size_t i = 0; i < 4 * threads; ++i) xs.first[i] = in[i % 4];
    b.executable().run({{xs.first, ys.first}, {}});
    const Bytes even(ys.first, ys.first + 4), odds(ys.first + 4, ys.first + 8);
    CHECK(even == Bytes{0x62, 0x34, 0xD0, 0x97});  // |1 −4 2 1.5|, −(−0 3 −6 0.5)
    CHECK(odds == Bytes{0x66, 0x66, 0xD0, 0x97});
}

TEST_CASE("words of e2m1 are bits from the low nibble up", "[host]") {
    Builder b("bits", threads);
    const int x = b.vector_tensor("x", e2m1, b.i64c(8 * threads)), y = b.vector_tensor("y", u32, b.i64c(threads));
    const int z = b.vector_tensor("z", e2m1, b.i64c(8 * threads)), w = b.vector_tensor("w", u8, b.i64c(threads));
    b.grid({b.i64c(1)});
    const Ref first = b.mul(b.thread64(), b.i64c(8));
    const int r = b.array("r", e2m1, 8, 1);
    b.load(global(x, first, 8), r, 0);
    const Ref word = b.let(b.bitcast(u32, b.word(r, 0)));
    b.store(global(y, b.thread64()), {word});
    b.store(global(z, first, 8), {b.bitcast(e2m1, b.op(BinaryOp::bit_xor, word, b.constant(u32, 0x80000001)))});
    b.store(global(w, b.thread64()), {b.bitcast(u8, b.pack({b.lane(b.word(r, 0), 7), b.lane(b.word(r, 0), 0)}))});
    const Memory xs(4 * threads, 0, 0), ys(4 * threads, 0, 0), zs(4 * threads, 0, 0), ws(threads, 0, 0);
    for (std::size_t i = 0; i < 4 * threads; ++i) xs.first[i] = static_cast<std::uint8_t>(0x10 + i);
    b.executable().run({{xs.first, ys.first, zs.first, ws.first}, {}});
    for (std::size_t t = 0; t < threads; ++t) {
        const std::uint8_t* in = xs.first + 4 * t;
        CHECK(std::equal(in, in + 4, ys.first + 4 * t));
        CHECK(Bytes(zs.first + 4 * t, zs.first + 4 * t + 4) ==
              Bytes{static_cast<std::uint8_t>(in[0] ^ 1), in[1], in[2], static_cast<std::uint8_t>(in[3] ^ 0x80)});
        CHECK(int{ws.first[t]} == (in[3] >> 4 | (in[0] & 0xF) << 4));
    }
}

TEST_CASE("a serial loop carries packed words, and a mask fills them", "[host]") {
    for (Element type : {e2m1, e5m6}) {
        // Rows of 8 elements; each thread ends with the last row below n, or with the fill value.
        Builder b("last", threads);
        const Ref n = b.scalar("n");
        const Ref columns = b.i64c(8 * threads), rows = b.i64c(4), fill = b.constant(type, 0x5);
        const int x = b.tensor("x", type, {{rows, columns}, {columns, b.i64c(1)}});
        const int y = b.vector_tensor("y", type, columns);
        b.grid({b.i64c(1)});
        const int pack = type == e2m1 ? 8 : 2;
        const int r = b.array("r", type, pack, 8 / pack);
        const Ref column = b.let(b.mul(b.thread64(), b.i64c(8)));
        for (int i = 0; i < 8 / pack; ++i) b.set(r, i, b.constant(type, 0, pack));
        b.loop(b.i64c(0), n, b.i64c(1), false, [&](Ref row) {
            const Ref inside = b.less(column, b.mul(b.i64c(64), b.add(row, b.i64c(1))));
            b.load(access(ir::Space::global, x, {row, column}, b.add(b.mul(row, columns), column), 8, inside), r, 0,
                   fill);
        });
        std::vector<Ref> words;
        for (int i = 0; i < 8 / pack; ++i) words.push_back(b.word(r, i));
        b.store(global(y, column, 8), words);
        const auto vector = static_cast<std::size_t>(bits_of(type));
        const Memory xs(4 * threads * vector, 0, 0), ys(threads * vector, 0, 0);
        for (std::size_t i = 0; i < 4 * threads * vector; ++i) xs.first[i] = static_cast<std::uint8_t>(i * 7 + i / 256);
        b.executable().run({{xs.first, ys.first}, {3}});
        const Bytes filled = type == e2m1 ? Bytes{0x55, 0x55, 0x55, 0x55} : Bytes{0x00, 0x05, 0x50, 0x00, 0x50, 0x00,
                                                                                  0x05, 0x50, 0x05, 0x50, 0x00, 0x05};
        for (std::size_t t = 0; t < threads; ++t) {
            INFO(name_of(type) << " thread " << t);
            const std::uint8_t* row = xs.first + (2 * threads + t) * vector;
            const Bytes got(ys.first + t * vector, ys.first + (t + 1) * vector);
            CHECK(got == (t < 24 ? Bytes(row, row + vector) : filled));
        }
    }
}
