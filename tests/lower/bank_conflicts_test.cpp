#include "dsl/lower/bank_conflicts.hpp"

#include <catch2/catch.hpp>

#include "dsl/front/kernel.hpp"
#include "dsl/ir/program.hpp"
#include "dsl/lower/lower.hpp"

// Expected passes are counted by hand from the addresses: 32 banks of 4 bytes.

using namespace tessera;

namespace {

/// Writes a 32 × 32 tile of words by rows and reads it by columns.
Program square(SwizzleOptions swizzle) {
    return record("square", [=](Kernel& k) {
        const auto x = k.input<u32>("x", {32, 32}, {.align = 4});
        const auto y = k.output<u32>("y", {32, 32}, {.align = 4});
        k.threads(32);
        const auto [b] = k.grid(1);
        const auto tile = k.shared<u32>("tile", {32, 32}, swizzle);
        store(tile.whole(), load(x.block({32, 32}, {b, 0}), {.per_thread = {1, 1}}).permute<1, 0>());
        store(y.block({32, 32}, {b, 0}), load(tile.whole(), {.per_thread = {1, 1}}));
    });
}

lower::SharedAccess first(const Program& p, bool store) {
    for (const lower::SharedAccess& a : lower::bank_conflicts(lower::lower(p.ir(), Target::h200())))
        if (a.store == store) return a;
    FAIL("no such access");
    return {};
}

}  // namespace

TEST_CASE("columns of a plain tile meet in the same banks, rows do not") {
    const Program p = square({});
    const lower::SharedAccess written = first(p, true), read = first(p, false);
    CHECK(written.tile == "tile");
    // Each lane holds a column and writes 4 words of its tile row at once. 8 lanes make a group of 128 bytes; their
    // rows lie 128 bytes apart, so that they meet in the same 4 banks: 8 passes a group.
    CHECK(written.bytes == 16);
    CHECK(written.lanes == 32);
    CHECK(written.passes == 32);
    CHECK(written.at_best == 4);
    CHECK(read.passes == 1);
}

TEST_CASE("words XORed with the row's number meet no bank twice") {
    const Program p = square({5, 0, 5});
    CHECK(first(p, true).passes == 1);
    CHECK(first(p, false).passes == 1);
}

TEST_CASE("what warps have summed or counted of the columns of a tile meets without conflicts") {
    const Program p = record("columns", [](Kernel& k) {
        const auto x = k.input<i32>("x", {64, 64});
        const auto sums = k.output<i32>("sums", {64});
        const auto before = k.output<i32>("before", {64, 64});
        k.threads(512);
        const auto [b] = k.grid(1);
        const auto v = load(x.block({64, 64}, {b, 0}));
        store(sums.block({64}, {b}), reduce_sum(v, axis<0>).squeeze(axis<0>));
        store(before.block({64, 64}, {b, 0}), exclusive_sum(v, axis<0>));
    });
    int parts = 0;
    for (const lower::SharedAccess& a : lower::bank_conflicts(lower::lower(p.ir(), Target::h200()))) {
        INFO(a.tile << (a.store ? " written" : " read"));
        if (a.tile.rfind("parts", 0) != 0) continue;
        ++parts;
        // 16 lanes hold 4 neighbouring columns each, which they write one by one: words 16 bytes apart, in two passes
        // of 8 banks; and read as vectors.
        CHECK(a.passes <= (a.store ? 2 : a.at_best));
    }
    CHECK(parts == 4);
}

TEST_CASE("slots of a pipeline are looked at like other tiles") {
    const auto program = [](SwizzleOptions swizzle) {
        return record("staged", [=](Kernel& k) {
            const auto x = k.input<f32>("x", {8, 32, 32});
            const auto y = k.output<f32>("y", {8, 32, 32}, {.align = 4});
            k.threads(32);
            k.grid(1);
            const auto tile = k.shared<f32>("tile", {3, 32, 32}, swizzle);
            k.pipelined(
                8, {.stages = 3},
                [&](Index i, Index slot) { copy_async(tile[slot].whole(), x[i].block({32, 32}, {0, 0})); },
                [&](Index i, Index slot) {
                    const auto v = load(tile[slot].window({32, 1}, {0, 0}), {.per_thread = {1, 1}});
                    store(y[i].window({32, 1}, {0, 0}), v);
                });
        });
    };
    CHECK(first(program({}), false).passes == 32);  // a column of rows of 128 bytes
    CHECK(first(program({3, 2, 3}), false).passes == 4);
}
