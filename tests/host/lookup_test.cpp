#include <catch2/catch.hpp>
#include <random>

#include "packed.hpp"

// Tables of codes: every code in every place of a word, with tables of any bits.

using namespace host_test;

namespace {

/// What a lookup gives of one code.
unsigned entry_of(Element type, const std::uint32_t (&table)[2], unsigned code, bool signs) {
    const unsigned m = code % 8;
    if (type == e2m1) return (table[0] >> (4 * m) & 15) ^ (signs && code >= 8 ? 8 : 0);
    const unsigned entry = table[m / 4] >> (m % 4 * 8) & 255;
    return type == e4m3 && signs && code >= 8 ? entry ^ 128 : entry;
}

/// y = x looked up, a word of results a thread. signs: 0 none given, 1 false, 2 true for even threads.
void check_words(Element type, bool in_words, int signs, const std::uint32_t (&table)[2], std::mt19937& random) {
    const int lanes = 32 / bits_of(type);
    Builder b("lookup", threads);
    const int x = b.vector_tensor("x", e2m1, b.i64c(threads * lanes));
    const int t = b.vector_tensor("t", u32, b.i64c(2)), y = b.vector_tensor("y", type, b.i64c(threads * lanes));
    b.grid({b.i64c(1)});
    const Ref first = b.let(b.mul(b.thread64(), b.i64c(lanes)));
    const int codes = b.array("codes", e2m1, lanes, 1), words = b.array("words", u32, 1, 2);
    b.load(global(x, first, lanes), codes, 0);
    b.load(global(t, b.i64c(0)), words, 0);
    b.load(global(t, b.i64c(1)), words, 1);
    std::vector<Ref> entries;
    for (int i = 0; i < (type == e2m1 ? 1 : 2); ++i) entries.push_back(b.bitcast(type, b.word(words, i)));
    const Ref truth = signs == 0   ? nullptr
                      : signs == 1 ? b.constant(boolean, 0)
                                   : b.op(BinaryOp::eq, b.op(BinaryOp::mod, b.thread(), b.i32c(2)), b.i32c(0));
    Ref result = nullptr;
    if (in_words) {
        result = b.node(type, ir::Lookup{b.word(codes, 0), entries, truth}, lanes);
    } else {
        std::vector<Ref> elements;
        for (int i = 0; i < lanes; ++i)
            elements.push_back(b.node(type, ir::Lookup{b.lane(b.word(codes, 0), i), entries, truth}));
        result = b.pack(elements);
    }
    b.store(global(y, first, lanes), {result});
    const Memory in(static_cast<std::size_t>(threads * lanes / 2), 0, 0);
    const Memory out(static_cast<std::size_t>(threads * lanes * bits_of(type) / 8), 0, 0);
    for (int i = 0; i < threads * lanes / 2; ++i) in.first[i] = static_cast<std::uint8_t>(random());
    std::uint32_t held[2] = {table[0], table[1]};
    b.executable().run({{in.first, held, out.first}, {}});
    for (int i = 0; i < threads * lanes; ++i) {
        const unsigned code = in.first[i / 2] >> (i % 2 * 4) & 15u;
        const unsigned got = type == e2m1 ? out.first[i / 2] >> (i % 2 * 4) & 15u : out.first[i];
        const bool with_sign = signs == 0 || (signs == 2 && i / lanes % 2 == 0);
        REQUIRE(got == entry_of(type, table, code, with_sign));
    }
}

}  // namespace

TEST_CASE("codes are looked up in words and alone, with signs, without, and by thread", "[host]") {
    std::mt19937 random(5);
    for (const Element type : {e2m1, e4m3, u8})
        for (int round = 0; round < 20; ++round)
            for (const bool in_words : {true, false})
                for (int signs = 0; signs < (type == u8 ? 1 : 3); ++signs) {
                    const std::uint32_t table[2] = {static_cast<std::uint32_t>(random()),
                                                    static_cast<std::uint32_t>(random())};
                    INFO(name_of(type) << " words " << in_words << " signs " << signs << " table " << table[0] << " "
                                       << table[1]);
                    check_words(type, in_words, signs, table, random);
                }
}
