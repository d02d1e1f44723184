#include <limits>
#include <optional>
#include <vector>

#include "dsl/ir/program.hpp"
#include "tests/front/refused.hpp"

// What a kernel writer can do wrong with tiles, tensors and numbers is said on his line, while recording.

using namespace tessera;
using namespace tessera::test;

namespace {

Global<f32, 2> matrix(Kernel& k) {
    k.grid(1);
    return k.inout<f32>("x", {64, 64});
}

}  // namespace

TEST_CASE("the error names the line of the operation", "[front]") {
    std::string expected;
    const std::string split = refused([&](Kernel& k) {
        const auto v = load(matrix(k).block({8, 8}, {0, 0}));
        expected = line_here(1);
        v.split(axis<1>, 3);
    });
    CHECK_THAT(split, Catch::StartsWith(expected));
    const std::string minus = refused([&](Kernel& k) {
        k.grid(1);
        std::optional<Value<f32, 1>> v;
        k.serial(4, [&](Index) { v.emplace(full({8}, Value<f32, 0>(0.0f))); });
        expected = line_here(1);
        -*v;
    });
    CHECK_THAT(minus, Catch::StartsWith(expected));
}

TEST_CASE("the grid is set once, at the top, from numbers of the launch", "[front]") {
    CHECK_THAT(refused([](Kernel&) {}), says("sets no grid"));
    CHECK_THAT(refused([](Kernel& k) { k.grid(1), k.grid(1); }), says("set twice"));
    CHECK_THAT(refused([](Kernel& k) { k.serial(2, [&](Index) { k.grid(1); }); }), says("inside a loop"));
    CHECK_THAT(refused([](Kernel& k) { k.grid(4, -1); }), says("extent -1 along axis 1"));
    CHECK_THAT(refused([](Kernel& k) { k.grid(load(k.input<i64>("n", {1})[0])); }), says("known at launch"));
    CHECK_THAT(refused([](Kernel& k) { k.threads(48); }), says("multiple of 32 from 32 to 1024"));
}

TEST_CASE("tensors are described by numbers of the launch", "[front]") {
    CHECK_THAT(refused([](Kernel& k) {
                   const auto [m] = k.grid(4);
                   k.output<f32>("y", {m});
               }),
               says("extent of tensor y along axis 0"));
    CHECK_THAT(refused([](Kernel& k) {
                   k.grid(1);
                   k.serial(3, [&](Index i) { k.output<f32>("y", {4}, {.strides = {i}}); });
               }),
               says("stride of tensor y along axis 0"));
    CHECK_THAT(refused([](Kernel& k) { k.output<f32>("y", {8, -4}); }), says("extent -4 along axis 1"));
    CHECK_THAT(refused([](Kernel& k) { k.output<u8>("y", {4}, {.strides = {AxisStride(4).packed(0, 1)}}); }),
               says("packed(0, …)"));
    for (int align : {0, 2, 3, 512})
        CHECK_THAT(refused([&](Kernel& k) { k.output<f32>("y", {4}, {.align = align}); }), says("align"));
    CHECK_THAT(refused([](Kernel& k) { k.dim("n", multiple_of(0)); }), says("at least 1"));
}

TEST_CASE("names are C identifiers that stand once", "[front]") {
    for (const char* name : {"", "3x", "a-b", "größe", "a b"})
        CHECK_THAT(refused([&](Kernel& k) { k.input<f32>(name, {4}); }), says("C identifiers"));
    CHECK_THAT(refused([](Kernel& k) { k.input<f32>(nullptr, {4}); }), says("null pointer"));
    CHECK_THAT(refused([](Kernel& k) { k.dim("a"), k.shared<f32>("a", {4}); }), says("already names"));
    CHECK_THAT(refused([](Kernel& k) { k.dim("kernel"); }), says("already names"));
    // The mbarriers of rings and pipelines have names that nobody else has given, before or after.
    const Program program = record("kernel", [](Kernel& k) {
        k.grid(1);
        const auto x = k.input<f32>("full", {4, 32});
        const auto tile = k.shared<f32>("tile", {2, 32});
        const auto ring = k.ring({.stages = 2});
        k.shared<f32>("empty", {32});
        k.shared<f32>("full_2", {32});
        k.roles(
            {.name = "copier", .warps = 1},
            [&] { ring.fill([&](Index slot) { copy_async(tile[slot].whole(), x[0].block({32}, {0})); }); },
            {.name = "user", .warps = 1}, [&] { ring.use([&](Index slot) { load(tile[slot].whole()); }); });
    });
    std::vector<std::string> names;
    for (const auto& tile : program.ir().shared) names.push_back(tile.name);
    CHECK(names == std::vector<std::string>{"tile", "full_3", "empty_2", "empty", "full_2"});
    CHECK_THROWS_WITH(record(nullptr, [](Kernel& k) { k.grid(1); }), says("null pointer"));
    CHECK_THROWS_WITH(record("3k", [](Kernel& k) { k.grid(1); }), says("C identifiers"));
    // A record() that failed at its name leaves nothing behind.
    CHECK_THROWS_WITH(full({2}, Value<f32, 0>(0.0f)), says("outside record()"));
}

TEST_CASE("tiles have extents of at least 1 and a size that 32 bits can count", "[front]") {
    for (std::int64_t extent : {std::int64_t{0}, std::int64_t{-1}}) {
        CHECK_THAT(refused([&](Kernel& k) { load(matrix(k).block({extent, 4}, {0, 0})); }), says("at least 1"));
        CHECK_THAT(refused([&](Kernel& k) { full({extent, 4}, Value<f32, 0>(0.0f)), k.grid(1); }), says("at least 1"));
        CHECK_THAT(refused([&](Kernel& k) { coordinates({4, extent}, axis<0>), k.grid(1); }), says("at least 1"));
        CHECK_THAT(refused([&](Kernel& k) { k.shared<f32>("s", {extent}); }), says("at least 1"));
    }
    const std::int64_t half = 1ll << 32;  // the product of two is 0 in 64 bits
    CHECK_THAT(refused([&](Kernel& k) { load(matrix(k).block({half, half}, {0, 0})); }), says("more than 2^30"));
    CHECK_THAT(refused([&](Kernel& k) { full({half, half}, Value<f32, 0>(0.0f)), k.grid(1); }), says("more than 2^30"));
    CHECK_THAT(refused([&](Kernel& k) { k.shared<f32>("s", {half, half}); }), says("more than 2^30"));
    CHECK_THAT(refused([&](Kernel& k) {
                   const auto row = full({1, 1 << 20}, Value<f32, 0>(0.0f)),
                              column = full({1 << 20, 1}, Value<f32, 0>(0.0f));
                   row + column, k.grid(1);
               }),
               says("more than 2^30"));
}

TEST_CASE("changes of shape must fit", "[front]") {
    const auto tile = [](Kernel& k) { return k.grid(1), full({8, 6}, Value<f32, 0>(0.0f)); };
    CHECK_THAT(refused([&](Kernel& k) { tile(k).split(axis<1>, 4); }), says("must be a multiple"));
    CHECK_THAT(refused([&](Kernel& k) { tile(k).split(axis<1>, 0); }), says("must be a multiple"));
    CHECK_THAT(refused([&](Kernel& k) { tile(k).split(axis<1>, -6); }), says("must be a multiple"));
    CHECK_THAT(refused([&](Kernel& k) { tile(k).squeeze(axis<0>); }), says("must be 1"));
    CHECK_THAT(refused([&](Kernel& k) { tile(k).permute<0, 0>(); }), says("stands once"));
    CHECK_THAT(refused([&](Kernel& k) { tile(k).permute<0, 2>(); }), says("stands once"));
    CHECK_THAT(refused([&](Kernel& k) { tile(k).extent(2); }), says("no such axis"));
    CHECK_THAT(refused([&](Kernel& k) { tile(k) + full({8, 3}, Value<f32, 0>(0.0f)); }), says("do not meet"));
    CHECK_THAT(refused([&](Kernel& k) {
                   auto s = k.variable(tile(k));
                   s = full({8, 3}, Value<f32, 0>(0.0f));
               }),
               says("extents must be equal"));
}

TEST_CASE("loads and stores say what does not fit", "[front]") {
    CHECK_THAT(refused([](Kernel& k) {
                   k.grid(1);
                   store(k.input<f32>("x", {4}).window({4}, {0}), full({4}, Value<f32, 0>(0.0f)));
               }),
               says("which is an input"));
    CHECK_THAT(refused([](Kernel& k) { load(k.output<f32>("y", {4}).window({4}, {0})); }), says("which is an output"));
    CHECK_THAT(refused([](Kernel& k) { store(matrix(k).block({8, 8}, {0, 0}), full({8, 1}, Value<f32, 0>(0.0f))); }),
               says("extents must be equal"));
    const auto per_thread = [](Shape shape) {
        return refused([=](Kernel& k) { load(matrix(k).block({8, 8}, {0, 0}), {.per_thread = shape}); });
    };
    CHECK_THAT(per_thread({8}), says("one number for each axis"));
    CHECK_THAT(per_thread({3, 1}), says("does not divide"));
    CHECK_THAT(per_thread({0, 1}), says("does not divide"));
    const auto window = [](std::int64_t extent, std::int64_t at) {
        return refused([=](Kernel& k) { load(k.shared<f32>("s", {8}).window({extent}, {at})); });
    };
    CHECK_THAT(window(4, 6), says("past its end"));
    CHECK_THAT(window(4, -1), says("past its end"));
    CHECK_THAT(window(1, std::numeric_limits<std::int64_t>::max()), says("past its end"));
    CHECK_THAT(refused([](Kernel& k) { load(k.shared<f32>("s", {8, 8}).block({4, 8}, {2, 0})); }),
               says("extent 4 at 8 along axis 0"));
    CHECK_THAT(refused([](Kernel& k) { load(k.shared<f32>("s", {8})[Index(4) * 3 - 1]); }), says("extent 1 at 11"));
}

TEST_CASE("a swizzle stays inside its tile", "[front]") {
    CHECK_THAT(refused([](Kernel& k) {
                   const auto tile = k.shared<f32>("s", {8});
                   store(tile.whole(), load(tile.whole()), {.cache = Cache::streaming});
               }),
               says("streaming access to the shared tile s"));
    CHECK_THAT(refused([](Kernel& k) { load(k.shared<f32>("s", {8}).whole(), {.cache = Cache::kept}); }),
               says("kept access to the shared tile s"));
    CHECK_THAT(refused([](Kernel& k) {
                   store(k.output<f32>("y", {8}).block({8}, {0}), full({8}, Value<f32, 0>(0.0f)),
                         {.cache = Cache::kept});
               }),
               says("a store to y that is to be kept"));
    const auto swizzled = [](SwizzleOptions s) { return refused([=](Kernel& k) { k.shared<f32>("s", {3, 16}, s); }); };
    CHECK_THAT(swizzled({3, 0, 2}), says("shift >= bits"));
    CHECK_THAT(swizzled({0, 0, -2}), says("out of range"));
    CHECK_THAT(swizzled({-1, 0, 2}), says("out of range"));
    CHECK_THAT(swizzled({1, 20, 20}), says("out of range"));
    CHECK_THAT(swizzled({5, 0, 5}), says("must divide the tile"));
}

TEST_CASE("a table has the extents of its codes, or 1", "[front]") {
    const auto mapped = [](std::initializer_list<std::int64_t> entries, std::initializer_list<std::int64_t> mask) {
        return [=](Kernel& k) {
            k.grid(1);
            const auto codes = cast<e2m1>(full({8, 16}, Value<f32, 0>(1.0f)));
            const auto tile = [](std::initializer_list<std::int64_t> e, int value) {
                const std::int64_t extents[2] = {e.begin()[0], e.begin()[1]};
                return full(extents, Value<i32, 0>(value));
            };
            map_magnitudes<e4m3>(codes, [&](float) { return cast<e4m3>(tile(entries, 1)); }, tile(mask, 1) > 0);
        };
    };
    record("kernel", mapped({8, 1}, {1, 16}));
    record("kernel", mapped({8, 16}, {8, 16}));
    CHECK_THAT(refused(mapped({8, 3}, {1, 1})), says("do not meet"));
    CHECK_THAT(refused(mapped({1, 1}, {2, 1})), says("do not meet"));
    const auto too_large = [](Kernel& k) {
        k.grid(1);
        const auto codes = cast<e2m1>(full({8, 1}, Value<f32, 0>(1.0f)));
        map_magnitudes<u8>(codes, [&](float) { return full({8, 16}, Value<u8, 0>(1)); });
    };
    CHECK_THAT(refused(too_large), says("a table of extents [8, 16] for codes of extents [8, 1]; it has theirs, or 1"));
    std::string expected;
    const std::string said = refused([&](Kernel& k) {
        k.grid(1);
        const auto codes = cast<e2m1>(full({8, 1}, Value<f32, 0>(1.0f)));
        const auto mask = full({8, 16}, Value<i32, 0>(1)) > 0;
        expected = line_here(1);
        map_magnitudes<e2m1>(codes, [](float m) { return m; }, mask);
    });
    CHECK_THAT(said, Catch::StartsWith(expected));
    CHECK_THAT(said, says("of extents [8, 16] for codes of extents [8, 1]"));
}

TEST_CASE("entries are asked for once each, from the smallest magnitude on", "[front]") {
    std::vector<float> asked;
    record("kernel", [&](Kernel& k) {
        k.grid(1);
        const auto codes = cast<e2m1>(full({8, 16}, Value<f32, 0>(1.0f)));
        map_magnitudes<u8>(codes, [&](float m) { return asked.push_back(m), 1; });
    });
    CHECK(asked == std::vector<float>{0, 0.5f, 1, 1.5f, 2, 3, 4, 6});
}

TEST_CASE("operands of a product meet, in multiples of the instruction's", "[front]") {
    const auto said = [](std::int64_t m, std::int64_t n, std::int64_t k, std::int64_t depth, int warps = 0) {
        return refused([=](Kernel& kernel) {
            const auto tile = [](std::int64_t rows, std::int64_t columns) {
                return cast<bf16>(full({rows, columns}, Value<f32, 0>(0.0f)));
            };
            kernel.grid(1);
            mma(tile(m, k), tile(n, depth), full({16, 8}, Value<f32, 0>(0.0f)), {.warps = warps});
        });
    };
    CHECK_THAT(said(16, 8, 32, 16), says("mma of a [16, 32], b [8, 16] and c [16, 8]: it needs a [M, K]"));
    CHECK_THAT(said(32, 8, 32, 32), says("c [16, 8]"));
    CHECK_THAT(said(16, 8, 24, 24), says("K of 16"));
    CHECK_THAT(said(16, 8, 32, 32, 3), says("a power of two, or 0"));
}

TEST_CASE("operands of products in shared memory lie as tensor cores read them") {
    const auto said = [](std::int64_t rows, std::int64_t columns, SwizzleOptions swizzle, std::int64_t first = 0,
                         std::int64_t m = 64) {
        return refused([=](Kernel& k) {
            k.grid(1);
            const auto tile = k.shared<bf16>("weights", {rows, columns}, swizzle);
            const auto a = cast<bf16>(full({m, columns}, Value<f32, 0>(0.0f)));
            mma(a, tile.window({8, columns}, {first, 0}), full({m, 8}, Value<f32, 0>(0.0f)));
        });
    };
    CHECK_NOTHROW(record("fits", [](Kernel& k) {
        k.grid(1);
        const auto tile = k.shared<bf16>("weights", {16, 64}, operand_swizzle<bf16>(64));
        mma(cast<bf16>(full({64, 64}, Value<f32, 0>(0.0f))), tile.window({8, 64}, {8, 0}),
            full({64, 8}, Value<f32, 0>(0.0f)));
    }));
    CHECK_THAT(said(16, 128, {}), says("rows are 128 elements of bf16, 256 bytes: tensor cores read rows of 32, 64 or "
                                       "128 bytes; cut K into parts of 64"));
    CHECK_THAT(said(16, 64, {}), says("weights, whose swizzle is (bits 0, base 0, shift 0)"));
    CHECK_THAT(said(16, 64, {2, 3, 3}), says("declare the tile with operand_swizzle<bf16>(64)"));
    CHECK_THAT(said(16, 64, operand_swizzle<bf16>(64), 4), says("whole rows of 64, from a constant multiple of 8 on"));
    CHECK_THAT(said(16, 64, operand_swizzle<bf16>(64), 0, 32), says("M must be a multiple of 64"));
    CHECK_THAT(refused([](Kernel& k) {
                   k.grid(1);
                   const auto x = k.input<bf16>("x", {8, 64});
                   mma(cast<bf16>(full({64, 64}, Value<f32, 0>(0.0f))), x.block({8, 64}, {0, 0}),
                       full({64, 8}, Value<f32, 0>(0.0f)));
               }),
               says("mma of a piece of the tensor x: an operand in place lies in shared memory"));
    CHECK_THAT(refused([](Kernel& k) {
                   k.grid(1);
                   const auto tile = k.shared<bf16>("tile", {2, 8, 64}, operand_swizzle<bf16>(64));
                   mma(cast<bf16>(full({64, 128}, Value<f32, 0>(0.0f))),
                       tile.window({2, 8, 64}, {coordinates({2}, axis<0>), 0, 0}), full({64, 8}, Value<f32, 0>(0.0f)));
               }),
               says("mma of a piece of tile that a tile of indices picks along axis 0"));
}
