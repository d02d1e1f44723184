#include <catch2/catch.hpp>
#include <numeric>

#include "builder.hpp"
#include "dsl/base/error.hpp"

using namespace host_test;
using Catch::Matchers::Contains;

namespace {

/// y[i] = x[i] for i < n, four elements a thread, blocks of 128 threads. `masked`: the edge is masked.
struct Copy {
    Builder b{"copy"};
    int line_of_load = 0;

    explicit Copy(bool masked, int lanes = 4, std::int64_t shift = 0) {
        const Ref n = b.scalar("n");
        const int x = b.vector_tensor("x", f32, n), y = b.vector_tensor("y", f32, n);
        const Ref per_block = b.i64c(128 * lanes);
        b.grid({b.op(BinaryOp::div, b.add(n, b.i64c(128 * lanes - 1)), per_block)});
        const Ref first =
            b.let(b.add(b.add(b.mul(b.block(), per_block), b.mul(b.thread64(), b.i64c(lanes))), b.i64c(shift)));
        const Ref inside = masked ? b.less(first, n) : nullptr;
        const int r = b.array("r", f32, 1, lanes);
        b.load(global(x, first, lanes, inside), r, 0, masked ? b.f32c(0) : nullptr), line_of_load = __LINE__;
        std::vector<Ref> words;
        for (int i = 0; i < lanes; ++i) words.push_back(b.word(r, i));
        b.store(global(y, first, lanes, inside), words);
    }
};

std::vector<float> counted(std::size_t n) {
    std::vector<float> v(n);
    std::iota(v.begin(), v.end(), 1.0f);
    return v;
}

}  // namespace

TEST_CASE("a copy with a ragged edge writes all of its range and nothing else", "[host]") {
    const Copy copy(true);
    const auto run = copy.b.executable();
    for (std::size_t n : {std::size_t{4}, std::size_t{512}, std::size_t{516}, std::size_t{2044}}) {
        for (bool check : {true, false}) {
            alignas(16) static float x[4096], y[4096];
            const auto values = counted(n);
            std::copy(values.begin(), values.end(), x);
            std::fill(std::begin(y), std::end(y), -7.0f);
            run.run({{x, y + 16}, {n}}, {.check = check, .workers = 2});
            CHECK(std::equal(values.begin(), values.end(), y + 16));
            CHECK(y[15] == -7.0f);
            CHECK(y[16 + n] == -7.0f);
        }
    }
}

TEST_CASE("an access out of bounds is reported before memory is touched", "[host]") {
    const Copy copy(false);
    std::vector<float> x = counted(1024), y(1024, -7.0f);
    const std::string text =
        error_of<UsageError>(copy.b.executable(), {{x.data(), y.data()}, {516}}, {.check = true, .workers = 1});
    CHECK_THAT(text, Contains("kernel 'copy': the load from x[516…519] lies outside of its extents [516]"));
    CHECK_THAT(text, Contains("block [1] of [2], thread 1"));
    CHECK_THAT(text, Contains("memory_test.cpp:" + std::to_string(copy.line_of_load) + ": "));
    CHECK(y[515] == -7.0f);  // block 1 stopped at its load
    CHECK(y[516] == -7.0f);

    const Copy before_begin(true, 4, -4);
    CHECK_THAT(error_of<UsageError>(before_begin.b.executable(), {{x.data(), y.data()}, {512}}), Contains("x[-4…-1]"));
}

TEST_CASE("a vector that sticks out is out of bounds although it begins inside", "[host]") {
    const Copy copy(true);
    std::vector<float> x(1024), y(1024);
    CHECK_THAT(error_of<UsageError>(copy.b.executable(), {{x.data(), y.data()}, {514}}),
               Contains("x[512…515]") && Contains("[514]"));
}

TEST_CASE("a misaligned vector is reported", "[host]") {
    alignas(16) static float x[600], y[600];
    SECTION("by its base") {
        const std::string text = error_of<UsageError>(Copy(true).b.executable(), {{x + 1, y}, {512}});
        CHECK_THAT(text, Contains("moves 16 bytes at once from an address that is 4 bytes past a multiple of 16"));
        CHECK_THAT(text, Contains("block [0] of [1], thread 0"));
    }
    SECTION("by its offset") {
        const Copy copy(true, 4, 1);
        CHECK_THAT(error_of<UsageError>(copy.b.executable(), {{x, y}, {513}}), Contains("x[1…4] moves 16 bytes"));
    }
    SECTION("one element at a time is always aligned") {
        CHECK(error_of<UsageError>(Copy(true, 1).b.executable(), {{x + 1, y}, {512}}).empty());
    }
}

TEST_CASE("where the mask is off, loads give the fill value and memory stays untouched", "[host]") {
    Builder b("masked", 32);
    const int x = b.vector_tensor("x", f32, b.i64c(8)), y = b.vector_tensor("y", f32, b.i64c(32));
    const int z = b.vector_tensor("z", f32, b.i64c(8));
    b.grid({b.i64c(1)});
    const Ref t = b.thread64();
    const Ref few = b.let(b.less(t, b.i64c(8)));
    const int r = b.array("r", f32, 1, 1);
    b.load(global(x, t, 1, few), r, 0, b.f32c(0.5f));
    b.store(global(y, t), {b.word(r, 0)});
    b.store(global(z, t, 1, few), {b.word(r, 0)});
    std::vector<float> in = counted(8), all(32), out(9, -7.0f);
    b.executable().run({{in.data(), all.data(), out.data()}, {}});
    for (std::size_t i = 0; i < 32; ++i) CHECK(all[i] == (i < 8 ? in[i] : 0.5f));
    CHECK(std::equal(in.begin(), in.end(), out.begin()));
    CHECK(out[8] == -7.0f);
}

TEST_CASE("an offset that its coordinates do not say is a fault of the lowering", "[host]") {
    Builder b("crooked", 32);
    const Ref pitch = b.scalar("pitch");
    const int x = b.tensor("x", u8, {{b.i64c(4), pitch}, {b.i64c(8), b.i64c(1)}});
    b.grid({b.i64c(1)});
    const Ref row = b.op(BinaryOp::div, b.thread64(), b.i64c(8)), col = b.op(BinaryOp::mod, b.thread64(), b.i64c(8));
    const int r = b.array("r", u8, 1, 1);
    b.load(access(ir::Space::global, x, {row, col}, b.add(b.mul(row, b.i64c(8)), col)), r, 0);
    const auto run = b.executable();
    std::vector<std::uint8_t> data(64);
    CHECK_NOTHROW(run.run({{data.data()}, {8}}));
    const std::string text = error_of<InternalError>(run, {{data.data()}, {16}});
    CHECK_THAT(text, Contains("x[1, 0] goes to element offset 8 where its coordinates") && Contains("say 16"));
}

TEST_CASE("an axis of two modes: byte in word, then word", "[host]") {
    // Coordinate c of the scales lies at (c / 4) · 4 · rows + c % 4, row r at 4 · r.
    Builder b("packed_scales", 32);
    const int rows = 3, groups = 8;
    const int s =
        b.tensor("s", u8, {{b.i64c(rows), b.i64c(4)}, {b.i64c(groups), b.i64c(4 * rows), 4, 1}}, ir::Role::output);
    b.grid({b.i64c(1)});
    const Ref t = b.thread64();
    const Ref row = b.op(BinaryOp::div, t, b.i64c(groups)), group = b.op(BinaryOp::mod, t, b.i64c(groups));
    const Ref four = b.i64c(4);
    const Ref offset = b.add(b.add(b.mul(row, four), b.mul(b.op(BinaryOp::div, group, four), b.i64c(4 * rows))),
                             b.op(BinaryOp::mod, group, four));
    b.store(access(ir::Space::global, s, {row, group}, offset, 1, b.less(t, b.i64c(rows * groups))), {b.cast(u8, t)});
    std::vector<std::uint8_t> out(rows * groups, 0xFF);
    b.executable().run({{out.data()}, {}});
    const std::vector<std::uint8_t> expected = {0, 1, 2, 3, 8,  9,  10, 11, 16, 17, 18, 19,
                                                4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23};
    CHECK(out == expected);
}

TEST_CASE("offsets beyond 2^31 are 64-bit", "[host]") {
    Builder b("far", 32);
    const int x = b.tensor("x", u8, {{b.i64c(2), b.scalar("pitch")}, {b.i64c(32), b.i64c(1)}});
    const int y = b.vector_tensor("y", u8, b.i64c(32));
    b.grid({b.i64c(1)});
    const Ref pitch = b.node(i64, ir::Parameter{0});
    const int r = b.array("r", u8, 1, 1);
    b.load(access(ir::Space::global, x, {b.i64c(1), b.thread64()}, b.add(pitch, b.thread64())), r, 0);
    b.store(global(y, b.thread64()), {b.word(r, 0)});
    std::vector<std::uint8_t> row(32), out(32);
    std::iota(row.begin(), row.end(), std::uint8_t{1});
    const std::int64_t far = std::int64_t{5} << 31;
    auto* base = reinterpret_cast<std::uint8_t*>(reinterpret_cast<std::uintptr_t>(row.data()) -
                                                 static_cast<std::uintptr_t>(far));
    b.executable().run({{base, out.data()}, {static_cast<std::uint64_t>(far)}});
    CHECK(out == row);
}
