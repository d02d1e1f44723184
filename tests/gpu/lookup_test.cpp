#include <catch2/catch.hpp>
#include <cstdint>
#include <random>
#include <vector>

#include "kernels/quant/scale.hpp"
#include "tessera/runtime.hpp"
#include "tests/emit/builder.hpp"

// Tables of codes and unrounded scales on the device, over all that they can meet.

using namespace tessera;
using test::BinaryOp;
using test::Builder;
using test::Ref;

namespace {

using Word = std::uint32_t;

constexpr std::int64_t tables = 1 << 15;

enum class Signs : std::uint8_t { all, none, of_even };

/// A thread takes a word of codes and a table of its own. "y": 8 entries by whole words, then the same one by one.
ir::Program looked_up(Element type, Signs signs) {
    Builder b(std::string("lookup_") + name_of(type));
    const int x = b.tensor("x", u32, ir::Role::input, {b.l(tables)}, 16);
    const int t = b.tensor("t", u32, ir::Role::input, {b.l(2 * tables)}, 16);
    const int y = b.tensor("y", type, ir::Role::output, {b.l(16 * tables)}, 16);
    b.program.grid = {b.l(tables / 128)};
    b.program.threads = 128;
    const Ref at = b.let("at", b.add(b.mul(b.block(), b.l(128)), b.cast(i64, b.thread())));
    const int v = b.array("v", u32, 1, 1), w = b.array("w", u32, 1, 2);
    b.load(Builder::global(x, at, 1), v, b.i(0));
    b.load(Builder::global(t, b.mul(at, b.l(2)), 2), w, b.i(0));
    const Ref codes = b.bitcast(e2m1, b.word(v, b.i(0)), {8});
    const int each = 32 / bits_of(type);
    std::vector<Ref> entries;
    for (int i = 0; i < 8 / each; ++i) entries.push_back(b.bitcast(type, b.word(w, b.i(i)), {each}));
    const Ref even = b.binary(BinaryOp::eq, b.binary(BinaryOp::mod, b.thread(), b.i(2)), b.i(0));
    const Ref truth = signs == Signs::all ? nullptr : signs == Signs::none ? b.constant(boolean, 0) : even;
    std::vector<Ref> words, alone;
    for (int i = 0; i < 8; i += each) {
        std::vector<Ref> some, elements;
        for (int j = i; j < i + each; ++j) {
            some.push_back(b.lane(codes, j));
            elements.push_back(b.make(type, {}, ir::Lookup{some.back(), entries, truth}));
        }
        words.push_back(b.make(type, {each}, ir::Lookup{each == 8 ? codes : b.pack(some), entries, truth}));
        alone.push_back(b.pack(elements));
    }
    b.store(Builder::global(y, b.mul(at, b.l(16)), 8), words);
    b.store(Builder::global(y, b.add(b.mul(at, b.l(16)), b.l(8)), 8), alone);
    return b.program;
}

void expect_looked_up(Element type, Signs signs) {
    INFO(name_of(type) << ", signs " << static_cast<int>(signs));
    std::mt19937 random(3);
    std::vector<Word> x, t;
    for (std::int64_t i = 0; i < tables; ++i) {
        // Every two codes side by side in every place, beside random others.
        const Word pair = static_cast<Word>(i) & 255, place = static_cast<Word>(i) >> 8 & 3;
        x.push_back((static_cast<Word>(random()) & ~(255u << (8 * place))) | pair << (8 * place));
        t.insert(t.end(), {static_cast<Word>(random()), static_cast<Word>(random())});
    }
    const Stream s = Stream::default_of(Device::best());
    const Tensor codes = Tensor::from_host(s, u32, {tables}, x.data());
    const Tensor table = Tensor::from_host(s, u32, {2 * tables}, t.data()), y = Tensor::empty(s, type, {16 * tables});
    Engine::of(Device::best()).compile(Program(new ir::Program(looked_up(type, signs)))).launch(s, {codes, table, y});
    const Tensor host = y.to_host(s);
    const auto* got = host.as<std::uint8_t>();
    std::int64_t wrong = 0;
    for (std::int64_t i = 0; i < tables; ++i)
        for (int j = 0; j < 16; ++j) {
            const Word code = x[static_cast<std::size_t>(i)] >> (j % 8 * 4) & 15, m = code & 7;
            const Word* words = &t[static_cast<std::size_t>(2 * i)];
            const bool negative = code >= 8 && (signs == Signs::all || (signs == Signs::of_even && i % 2 == 0));
            const std::int64_t at = 16 * i + j;
            if (type == e2m1)
                wrong += (got[at / 2] >> (at % 2 * 4) & 15u) != ((words[0] >> (4 * m) & 15) ^ (negative ? 8u : 0u));
            else
                wrong += got[at] != ((words[m / 4] >> (m % 4 * 8) & 255) ^ (negative && type == e4m3 ? 128u : 0u));
        }
    CHECK(wrong == 0);
}

/// Counts, in "wrong", the maxima with bits first … last whose scales are not what the compiler's division gives.
Program scales_against_division(float largest) {
    return record("scales", [=](Kernel& k) {
        const Dim first = k.dim("first"), last = k.dim("last");
        const auto wrong = k.inout<i64>("wrong", {1});
        k.threads(128);
        const auto [m] = k.grid(ceil_div(last - first + 1, 1024));
        const auto bits = coordinates({1024}, axis<0>) + (m * 1024 + first);
        const auto c = bitcast<f32>(cast<u32>(bits));
        const auto s = quant::unrounded_scales(c, largest);
        const auto differs =
            (bitcast<u32>(s.sf) != bitcast<u32>(c / largest)) | (bitcast<u32>(s.inv) != bitcast<u32>(largest / c));
        atomic_add(wrong.window({1}, {0}), reduce_sum(cast<i64>(differs & (bits <= last)), axis<0>));
    });
}

}  // namespace

TEST_CASE("every code in every place of a word is looked up in tables of any bits") {
    for (const Signs signs : {Signs::all, Signs::none, Signs::of_even}) {
        expect_looked_up(e2m1, signs);
        expect_looked_up(e4m3, signs);
    }
    expect_looked_up(u8, Signs::all);
}

TEST_CASE("unrounded scales have the bits of divisions for every maximum from 1e-4 to infinity") {
    const Stream s = Stream::default_of(Device::best());
    for (const float largest : {448.0f, 6.0f}) {
        const std::int64_t zero = 0;
        const Tensor wrong = Tensor::from_host(s, i64, {1}, &zero);
        // 1e-4 is 0x38d1b717.
        const std::int64_t first = 0x38d1b717, last = 0x7f800000;
        Engine::of(Device::best())
            .compile(scales_against_division(largest))
            .launch(s, {wrong}, {Scalar("first", first), Scalar("last", last)});
        CHECK(wrong.to_host(s).as<std::int64_t>()[0] == 0);
    }
}
