#include <memory>
#include <random>
#include <vector>

#include "dsl/host/executor.hpp"
#include "dsl/ir/verify.hpp"
#include "dsl/lower/lower.hpp"
#include "tests/front/refused.hpp"

// k.report from the writer's line to the error of the launch on the host.

using namespace tessera;
using test::refused;
using test::says;

namespace {

/// What the launch says; empty if nothing.
std::string said(const Program& p, const std::vector<void*>& tensors, const std::vector<std::uint64_t>& scalars) {
    ir::verify(p.ir());
    const auto lowered = std::make_shared<const ir::Program>(lower::lower(p.ir(), Target::h200()));
    ir::verify(*lowered);
    try {
        host::Executable(lowered).run({tensors, scalars}, {.check = true, .workers = 3});
    } catch (const UsageError& error) {
        return error.what();
    }
    return {};
}

/// Rows of ids, of which those from `limit` on are bad; one id more or less a thread by the tile.
Program id_check(std::int64_t columns, std::int64_t tile_rows, std::int64_t tile_columns) {
    return record("id_check", [=](Kernel& k) {
        const Dim rows = k.dim("rows");
        const auto ids = k.input<i32>("ids", {rows, columns}, {.align = 4});
        const auto limit = k.scalar<i32>("limit");
        k.threads(64);
        const auto [m, n] = k.grid(ceil_div(rows, tile_rows), ceil_div(columns, tile_columns));
        const auto piece = ids.block({tile_rows, tile_columns}, {m, n});
        const auto id = load(piece, 1000);
        k.report(id >= limit, "an id is below the limit", piece, id);
    });
}

}  // namespace

TEST_CASE("the first bad element inside the tensor is told, whatever the tile") {
    std::mt19937 random(7);
    for (const auto& [columns, tile_rows, tile_columns] :
         {std::tuple(1, 64, 1), std::tuple(6, 8, 4), std::tuple(300, 1, 256), std::tuple(40, 16, 64)}) {
        const Program p = id_check(columns, tile_rows, tile_columns);
        for (int round = 0; round < 20; ++round) {
            const auto rows = static_cast<int>(random() % 90 + 1);
            std::vector<std::int32_t> ids(static_cast<std::size_t>(rows * columns));
            for (auto& id : ids) id = static_cast<std::int32_t>(random() % 200) - 100;
            const int limit = round % 4 == 0 ? 100 : 99 - static_cast<int>(random() % 20);
            std::string expected;
            for (int i = rows * columns; i-- > 0;)
                if (ids[static_cast<std::size_t>(i)] >= limit)
                    expected = "ids[" + std::to_string(i / columns) + ", " + std::to_string(i % columns) + "] is " +
                               std::to_string(ids[static_cast<std::size_t>(i)]) + ", but an id is below the limit;";
            const std::string text =
                said(p, {ids.data()}, {static_cast<std::uint64_t>(rows), static_cast<std::uint64_t>(limit)});
            INFO(rows << " x " << columns << ", limit " << limit);
            if (expected.empty())
                CHECK(text == "");
            else
                CHECK_THAT(text, says(expected) && says("report_test.cpp:") && says("kernel id_check"));
        }
    }
}

TEST_CASE("values of every type are told as what they are") {
    const Program p = record("types", [](Kernel& k) {
        const auto x = k.input<f32>("x", {8}, {.align = 4});
        const auto which = k.scalar<i32>("which");
        k.grid(1);
        const auto piece = x.window({8}, {0});
        const auto v = load(piece);
        const auto check = [&](int i, const auto& value) {
            k.report((v == 2.5f) & (which == i), "x is not that", piece, value);
        };
        check(0, v);
        check(1, cast<bf16>(v));
        check(2, cast<e4m3>(v));
        check(3, bitcast<ue8m0>(cast<u8>(v) + Value<u8, 0>(127u)));
        check(4, cast<u8>(v));
        check(5, cast<i16>(-v));
        check(6, cast<f64>(v));
        check(7, bitcast<u64>(cast<f64>(v)));
        check(8, v == 2.5f);
        check(9, Value<i64, 0>(-12345678901));
    });
    std::vector<float> x{0, 1, 2, 2.5f, 4, 2.5f, 6, 7};
    const char* expected[] = {"2.5",  "2.5",         "2.5", "4.0", "2", "-2", "2.5", "4612811918334230528",
                              "true", "-12345678901"};
    for (int which = 0; which < 10; ++which)
        CHECK_THAT(said(p, {x.data()}, {static_cast<std::uint64_t>(which)}),
                   says("x[3] is " + std::string(expected[which]) + ", but x is not that"));
    CHECK(said(p, {x.data()}, {10}) == "");
}

TEST_CASE("a report without a value, of a picked element, of gathered rows, in a loop") {
    const Program p = record("places", [](Kernel& k) {
        const Dim n = k.dim("n");
        const auto x = k.input<i32>("x", {n, 16}, {.align = 4});
        const auto row = k.input<i32>("row", {4}, {.align = 4});
        k.grid(1);
        const auto list = load(row.window({4}, {0}));
        k.report(load(row[2]) == 99, "row 2 is not 99", row[2]);
        const auto gathered = x.window({4, 16}, {list, 0});
        k.report(load(gathered) == 7, "no 7 in these rows", gathered);
        k.serial(n, [&](Index i) {
            const auto line = x[i].window({16}, {0});
            k.report(load(line) == 8, "no 8", line);
        });
    });
    std::vector<std::int32_t> x(5 * 16, 1);
    std::vector<std::int32_t> rows{4, 2, 0, 9};
    CHECK(said(p, {x.data(), rows.data()}, {5}) == "");
    x[1 * 16 + 3] = 7;  // in a row that is not gathered
    CHECK(said(p, {x.data(), rows.data()}, {5}) == "");
    x[2 * 16 + 5] = 8;
    x[3 * 16] = 8;
    CHECK_THAT(said(p, {x.data(), rows.data()}, {5}), says("x[2, 5] is refused: no 8"));
    x[4 * 16 + 15] = 7;
    CHECK_THAT(said(p, {x.data(), rows.data()}, {5}), says("x[4, 15] is refused: no 7 in these rows"));
    rows[2] = 99;
    CHECK_THAT(said(p, {x.data(), rows.data()}, {5}), says("row[2] is refused: row 2 is not 99"));
}

TEST_CASE("mask and value may lie over the threads in different ways") {
    const Program p = record("layouts", [](Kernel& k) {
        const auto x = k.input<i32>("x", {16, 32});
        const auto y = k.input<i32>("y", {16, 32});
        k.threads(64);
        k.grid(1);
        const auto a = load(x.window({16, 32}, {0, 0}), {.per_thread = {1, 8}});
        const auto b = load(y.window({16, 32}, {0, 0}), {.per_thread = {4, 1}});
        k.report(a < 0, "x is positive", x.window({16, 32}, {0, 0}), b);
    });
    std::vector<std::int32_t> x(512, 1), y(512);
    for (int i = 0; i < 512; ++i) y[static_cast<std::size_t>(i)] = 1000 + i;
    for (const int at : {511, 300, 77, 3}) {
        x[static_cast<std::size_t>(at)] = -1;
        CHECK_THAT(said(p, {x.data(), y.data()}, {}),
                   says("x[" + std::to_string(at / 32) + ", " + std::to_string(at % 32) + "] is " +
                        std::to_string(1000 + at)));
    }
}

TEST_CASE("reports that cannot be are refused on the writer's line") {
    const auto with = [](auto&& body) {
        return refused([&](Kernel& k) {
            const auto x = k.input<i32>("x", {8, 8});
            const auto z = k.input<e2m1>("z", {8, 8});
            const auto deep = k.input<i32>("deep", {8, 8, 8});
            const auto tile = k.shared<i32>("tile", {8, 8});
            k.grid(1);
            body(k, x, z, deep, tile);
        });
    };
    const auto mask = [](std::int64_t n) { return full({n, n}, Value<boolean, 0>(true)); };
    CHECK_THAT(with([&](auto& k, auto& x, auto&, auto&, auto&) { k.report(mask(8), "", x.window({8, 8}, {0, 0})); }),
               says("without a rule"));
    CHECK_THAT(with([&](auto& k, auto& x, auto&, auto&, auto&) { k.report(mask(4), "r", x.window({8, 8}, {0, 0})); }),
               says("a piece [8, 8] of x by a mask [4, 4]: the extents must be equal"));
    CHECK_THAT(with([&](auto& k, auto& x, auto&, auto&, auto&) {
                   k.report(mask(8), "r", x.window({8, 8}, {0, 0}), full({4, 4}, Value<i32, 0>(1)));
               }),
               says("and a value [4, 4]"));
    CHECK_THAT(
        with([&](auto& k, auto&, auto&, auto& deep, auto&) { k.report(mask(8), "r", deep[0].window({8, 8}, {0, 0})); }),
        says("of rank 3"));
    CHECK_THAT(with([&](auto& k, auto&, auto&, auto&, auto& tile) { k.report(mask(8), "r", tile.whole()); }),
               says("a shared tile"));
    CHECK_THAT(with([&](auto& k, auto&, auto& z, auto&, auto&) {
                   k.report(mask(8), "r", z.window({8, 8}, {0, 0}), load(z.window({8, 8}, {0, 0})));
               }),
               says("cast<f32>(v)"));
    CHECK_THAT(with([&](auto& k, auto& x, auto&, auto&, auto&) {
                   for (int i = 0; i < 256; ++i) k.report(mask(8), "r", x.window({8, 8}, {0, 0}));
               }),
               says("more than 255 reports"));
}
