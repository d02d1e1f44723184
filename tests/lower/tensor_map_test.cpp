#include <cstring>
#include <functional>
#include <type_traits>

#include "tests/lower/run.hpp"

// Copies by tensor maps: a box from anywhere, over every edge and past it, of every rank, element and swizzle, is what
// plain loops say; what the copy engine cannot take is refused with the cure. With a GPU the same kernels run there.

using namespace tessera;
using namespace tessera::test;

namespace {

template <Element T>
using Word = std::conditional_t<bits_of(T) == 8, std::uint8_t,
                                std::conditional_t<bits_of(T) == 16, std::uint16_t,
                                                   std::conditional_t<bits_of(T) == 32, std::uint32_t, std::uint64_t>>>;

/// Bits that every element of their width holds as they are: no NaN, and 0 or 1 for booleans.
template <class W>
std::vector<W> words(std::size_t count, bool truth) {
    std::vector<W> v(count);
    for (std::size_t i = 0; i < count; ++i) v[i] = static_cast<W>(truth ? (i * 5 + i / 7) % 2 : 1 + i * 37 % 113);
    return v;
}

SwizzleOptions swizzle_over(int bytes, int element_bits) {
    if (bytes == 0) return {};
    const ir::Swizzle s = ir::engine_swizzle(bytes, element_bits);
    return {s.bits, s.base, s.shift};
}

struct Piece2 {
    std::int64_t rows, cols;
    int swizzle;
};

/// y[i] = the box of x at (top + i · rows, left · 16 bytes).
template <Element T>
Program boxes(const Piece2& p) {
    return record("kernel", [=](Kernel& k) {
        constexpr std::int64_t in_16_bytes = 128 / bits_of(T);
        const Dim n = k.dim("n"), m = k.dim("m"), pitch = k.dim("pitch", multiple_of(in_16_bytes));
        const auto x = k.input<T>("x", {n, m}, {.strides = {pitch, 1}});
        const Dim items = k.dim("items");
        const auto y = k.output<T>("y", {items, p.rows, p.cols});
        const Index top = k.scalar<i64>("top"), left = k.scalar<i64>("left") * in_16_bytes;
        k.threads(64);
        k.grid(1);
        const auto tile = k.shared<T>("tile", {2, p.rows, p.cols}, swizzle_over(p.swizzle, bits_of(T)));
        k.pipelined(
            items, {.stages = 2, .engine = Copies::tensor},
            [&](Index i, Index slot) {
                copy_async(tile[slot].whole(), x.window({p.rows, p.cols}, {top + i * p.rows, left}));
            },
            [&](Index i, Index slot) { store(y[i].window({p.rows, p.cols}, {0, 0}), load(tile[slot].whole())); });
    });
}

struct Case2 {
    std::int64_t n, m, top, left;
    std::size_t items;
};

template <Element T>
void check_boxes(const Piece2& p, const Target& target, const std::vector<Case2>& cases) {
    INFO(name_of(T) << ", rows " << p.rows << ", columns " << p.cols << ", swizzle " << p.swizzle << ", "
                    << target.arch());
    const Lowered kernel(boxes<T>(p), target);
    REQUIRE(kernel.program().maps.size() == 1);
    CHECK(kernel.fit_for_a_gpu());
    CHECK(kernel.program().maps[0].swizzle == p.swizzle);
    constexpr std::int64_t in_16_bytes = 128 / bits_of(T);
    for (const Case2& c : cases) {
        INFO("x " << c.n << " by " << c.m << " from " << c.top << ", " << c.left);
        const std::int64_t pitch = (c.m + in_16_bytes - 1) / in_16_bytes * in_16_bytes + in_16_bytes;
        auto x = words<Word<T>>(static_cast<std::size_t>(c.n * pitch), T == boolean);
        std::vector<Word<T>> y(c.items * static_cast<std::size_t>(p.rows * p.cols), 77), expected;
        for (std::int64_t r = 0; r < static_cast<std::int64_t>(c.items) * p.rows; ++r)
            for (std::int64_t col = 0; col < p.cols; ++col) {
                const std::int64_t row = c.top + r, at = c.left * in_16_bytes + col;
                const bool inside = row >= 0 && row < c.n && at >= 0 && at < c.m;
                expected.push_back(inside ? x[static_cast<std::size_t>(row * pitch + at)] : Word<T>{0});
            }
        x.resize(static_cast<std::size_t>((c.n - 1) * pitch + c.m));
        kernel.run({static_cast<std::uint64_t>(c.n), static_cast<std::uint64_t>(c.m), static_cast<std::uint64_t>(pitch),
                    c.items, static_cast<std::uint64_t>(c.top), static_cast<std::uint64_t>(c.left)},
                   x, y);
        CHECK(y == expected);
    }
}

template <Element T>
void check_element() {
    // Inside, over each edge and corner, and wholly past each; the last one further than 32 bits count.
    const std::vector<Case2> cases = {{40, 200, 0, 0, 3},         {17, 77, 3, 2, 2},   {17, 77, -3, -1, 3},
                                      {9, 30, 4, 1, 2},           {5, 16, -100, 1, 2}, {5, 16, 2, -60, 1},
                                      {5, 16, 2, 200, 1},         {1, 1, -2, -1, 1},   {8, 16, 1ll << 33, 0, 1},
                                      {8, 16, 0, -(1ll << 35), 1}};
    for (const int swizzle : {0, 32, 64, 128}) {
        const std::int64_t cols = (swizzle > 0 ? swizzle : 48) * 8 / bits_of(T);
        check_boxes<T>({8, cols, swizzle}, Target::h200(), cases);
    }
}

std::string refused(const std::function<void(Kernel&)>& body) {
    try {
        Lowered(record("kernel", body), Target::h200());
    } catch (const UsageError& error) {
        return error.what();
    }
    return "";
}

/// A pipeline that does nothing but this copy.
template <Element T, int R, int S>
void copies(Kernel& k, const Shared<T, R>& tile, const Global<T, S>& x, const auto& piece_of) {
    k.grid(1);
    k.pipelined(
        4, {.stages = 2, .engine = Copies::tensor},
        [&](Index i, Index slot) { copy_async(tile[slot].whole(), piece_of(x, i)); }, [](Index, Index) {});
}

}  // namespace

TEST_CASE("a box from anywhere is what lies there and zeros, for every element and swizzle", "[lower][tensor_map]") {
    check_element<f64>(), check_element<f32>(), check_element<tf32>(), check_element<f16>(), check_element<bf16>();
    check_element<e5m2>(), check_element<e4m3>(), check_element<ue8m0>(), check_element<boolean>();
    check_element<i8>(), check_element<i16>(), check_element<i32>(), check_element<i64>();
    check_element<u8>(), check_element<u16>(), check_element<u32>(), check_element<u64>();
}

TEST_CASE("boxes of random shapes on both targets", "[lower][tensor_map]") {
    std::uint64_t state = 2026;
    const auto pick = [&](std::int64_t low, std::int64_t high) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        return low + static_cast<std::int64_t>((state >> 33) % static_cast<std::uint64_t>(high - low + 1));
    };
    for (int i = 0; i < 24; ++i) {
        // Stages begin at multiples of 128 bytes, swizzled ones of eight rows.
        const int swizzle = std::vector<int>{0, 32, 64, 128}[static_cast<std::size_t>(pick(0, 3))];
        const std::int64_t cols = swizzle > 0 ? swizzle / 4 : 4 * pick(1, 12);
        const std::int64_t rows = swizzle > 0 || cols % 32 != 0 ? 8 * pick(1, 6) : pick(1, 48);
        std::vector<Case2> cases;
        for (int c = 0; c < 6; ++c)
            cases.push_back(
                {pick(1, 90), pick(1, 150), pick(-60, 100), pick(-18, 40), static_cast<std::size_t>(pick(0, 4))});
        for (const Target& target : {Target::h200(), Target::b200()})
            check_boxes<f32>({rows, cols, swizzle}, target, cases);
    }
}

TEST_CASE("boxes of one axis", "[lower][tensor_map]") {
    const auto program = record("kernel", [](Kernel& k) {
        const Dim n = k.dim("n");
        const auto x = k.input<f32>("x", {n});
        const auto y = k.output<f32>("y", {ceil_div(n, 64) * 64}, {.align = 16});
        k.threads(32);
        k.grid(1);
        const auto tile = k.shared<f32>("tile", {3, 64});
        k.pipelined(
            ceil_div(n, 64), {.stages = 3, .engine = Copies::tensor},
            [&](Index i, Index slot) { copy_async(tile[slot].whole(), x.block({64}, {i})); },
            [&](Index i, Index slot) { store(y.block({64}, {i}), load(tile[slot].whole())); });
    });
    on_targets(program, [](const Lowered& kernel) {
        CHECK(kernel.text().find("cp.async.bulk.tensor.1d") != std::string::npos);
        for (const std::size_t n : {1u, 63u, 64u, 65u, 300u}) {
            auto x = numbers<float>(static_cast<std::int64_t>(n));
            auto expected = x;
            expected.resize((n + 63) / 64 * 64, 0.0f);
            std::vector<float> y(expected.size(), -1.0f);
            kernel.run({n}, x, y);
            CHECK(y == expected);
        }
    });
}

TEST_CASE("boxes of four axes, over three edges", "[lower][tensor_map]") {
    const auto program = record("kernel", [](Kernel& k) {
        const Dim a = k.dim("a");
        const auto x = k.input<f32>("x", {a, 3, 5, 12});
        const auto y = k.output<f32>("y", {ceil_div(a, 2), 2, 2, 4, 8});
        k.threads(64);
        k.grid(1);
        const auto tile = k.shared<f32>("tile", {2, 2, 2, 4, 8});
        k.pipelined(
            ceil_div(a, 2), {.stages = 2, .engine = Copies::tensor},
            [&](Index i, Index slot) { copy_async(tile[slot].whole(), x.window({2, 2, 4, 8}, {i * 2, 2, 3, 8})); },
            [&](Index i, Index slot) { store(y[i].window({2, 2, 4, 8}, {0, 0, 0, 0}), load(tile[slot].whole())); });
    });
    on_targets(program, [](const Lowered& kernel) {
        for (const std::size_t a : {1u, 2u, 5u}) {
            auto x = numbers<float>(static_cast<std::int64_t>(a * 3 * 5 * 12), 1, 99);
            std::vector<float> y((a + 1) / 2 * 128, -1.0f), expected;
            for (std::size_t p = 0; p < (a + 1) / 2 * 2; ++p)
                for (std::size_t q = 2; q < 4; ++q)
                    for (std::size_t r = 3; r < 7; ++r)
                        for (std::size_t c = 8; c < 16; ++c)
                            expected.push_back(p < a && q < 3 && r < 5 && c < 12 ? x[((p * 3 + q) * 5 + r) * 12 + c]
                                                                                 : 0.0f);
            kernel.run({a}, x, y);
            CHECK(y == expected);
        }
    });
}

TEST_CASE("boxes of five axes, of which two are picked", "[lower][tensor_map]") {
    const auto program = record("kernel", [](Kernel& k) {
        const Dim a = k.dim("a");
        const auto x = k.input<bf16>("x", {a, 3, 5, 7, 16});
        const auto y = k.output<bf16>("y", {a, 2, 4, 4, 16});
        k.threads(64);
        k.grid(1);
        const auto tile = k.shared<bf16>("tile", {2, 2, 4, 4, 16});
        k.pipelined(
            a, {.stages = 2, .engine = Copies::tensor},
            [&](Index i, Index slot) {
                for (int plane = 0; plane < 2; ++plane)
                    copy_async(tile[slot][plane].whole(), x[i][1 + plane].window({4, 4, 16}, {2, 5, 8}));
            },
            [&](Index i, Index slot) { store(y[i].window({2, 4, 4, 16}, {0, 0, 0, 0}), load(tile[slot].whole())); });
    });
    on_targets(program, [](const Lowered& kernel) {
        CHECK(kernel.program().maps.size() == 1);  // two copies of one kind of box
        CHECK(kernel.count<ir::CopyBox>() == 4);
        constexpr std::size_t a = 3;
        auto x = numbers<std::uint16_t>(a * 3 * 5 * 7 * 16, 1, 30000);
        std::vector<std::uint16_t> y(a * 512, 5), expected;
        for (std::size_t p = 0; p < a; ++p)
            for (std::size_t q = 1; q < 3; ++q)
                for (std::size_t r = 2; r < 6; ++r)
                    for (std::size_t t = 5; t < 9; ++t)
                        for (std::size_t c = 8; c < 24; ++c) {
                            const bool inside = r < 5 && t < 7 && c < 16;
                            const std::size_t at = (((p * 3 + q) * 5 + r) * 7 + t) * 16 + c;
                            expected.push_back(inside ? x[at] : std::uint16_t{0});
                        }
        kernel.run({a}, x, y);
        CHECK(y == expected);
    });
}

TEST_CASE("what a box reads stays as it is until it is there", "[lower][tensor_map]") {
    const auto program = record("kernel", [](Kernel& k) {
        const Dim n = k.dim("n");
        const auto x = k.inout<f32>("x", {n, 32});
        k.threads(32);
        k.grid(1);
        const auto tile = k.shared<f32>("tile", {2, 4, 32});
        k.pipelined(
            ceil_div(n, 4), {.stages = 2, .engine = Copies::tensor},
            [&](Index i, Index slot) { copy_async(tile[slot].whole(), x.block({4, 32}, {i, 0})); },
            [&](Index i, Index) { store(x.block({4, 32}, {i + 1, 0}), full({4, 32}, Value<f32, 0>(1.0f))); });
    });
    std::vector<float> x(8 * 32);
    CHECK_THROWS_WITH(
        Lowered(program, Target::h200()).run_at({x.data()}, {8}),
        Catch::Contains("changes what a copy that is under way reads") && Catch::Contains("tensor_map_test.cpp"));
}

TEST_CASE("the place of a swizzled tile suits the copy engine, and one thread starts a box", "[lower][tensor_map]") {
    const auto program = record("kernel", [](Kernel& k) {
        const Dim n = k.dim("n");
        const auto x = k.input<bf16>("x", {n, 64});
        const auto y = k.output<bf16>("y", {n, 64});
        k.threads(128);
        k.grid(1);
        const auto small = k.shared<f32>("small", {40});
        const auto tile = k.shared<bf16>("tile", {2, 16, 64}, swizzle_over(128, 16));
        store(small.window({40}, {0}), full({40}, Value<f32, 0>(0.0f)));
        k.pipelined(
            ceil_div(n, 16), {.stages = 2, .engine = Copies::tensor},
            [&](Index i, Index slot) { copy_async(tile[slot].whole(), x.block({16, 64}, {i, 0})); },
            [&](Index i, Index slot) { store(y.block({16, 64}, {i, 0}), load(tile[slot].whole())); });
    });
    on_targets(program, [](const Lowered& kernel) {
        CHECK(kernel.program().shared[1].byte_offset == 1024);
        CHECK(kernel.text().find("__shared__ __align__(1024)") != std::string::npos);
        CHECK(kernel.text().find("const __grid_constant__ TensorMap x_map") != std::string::npos);
        CHECK(kernel.text().find("if (threadIdx.x == 0) fetch_map(x_map);") != std::string::npos);
        CHECK(kernel.text().find("if (thread == 0) copy_box_2d(full, tile, x_map, 2048, 0, 0);") != std::string::npos);
    });
}

namespace {

Global<f32, 2> two(Kernel& k, const Extent& rows, const Extent& cols, const TensorOptions& options = {}) {
    return k.input<f32>("x", {rows, cols}, options);
}
auto block(std::int64_t r, std::int64_t c) {
    return [=](const auto& x, Index i) { return x.block({r, c}, {i, 0}); };
}

}  // namespace

TEST_CASE("tensors that the copy engine cannot take are refused on their line", "[lower][tensor_map]") {
    using Catch::Contains;
    CHECK(refused([&](Kernel& k) { copies(k, k.shared<f32>("tile", {2, 8, 32}), two(k, 64, 32), block(8, 32)); }) ==
          "");
    CHECK_THAT(
        refused([&](Kernel& k) { copies(k, k.shared<f32>("tile", {2, 8, 32}), two(k, 64, k.dim("m")), block(8, 32)); }),
        Contains("a copy of x by a tensor map: the stride along axis 0 is not known to be a multiple of 16 bytes") &&
            Contains("multiple_of(4)") && Contains("tensor_map_test.cpp"));
    CHECK_THAT(refused([&](Kernel& k) { copies(k, k.shared<f32>("tile", {2, 8, 32}), two(k, 64, 301), block(8, 32)); }),
               Contains("the stride along axis 0 is 301 elements, 1204 bytes, no multiple of 16; pad the rows "
                        "(TensorOptions::strides), or copy by vectors"));
    CHECK_THAT(refused([&](Kernel& k) {
                   copies(k, k.shared<f32>("tile", {2, 8, 32}), two(k, 64, 32, {.align = 8}), block(8, 32));
               }),
               Contains("its base is known to be a multiple of 8 bytes only") && Contains("record {.align = 16}"));
    CHECK_THAT(refused([&](Kernel& k) {
                   copies(k, k.shared<f32>("tile", {2, 8, 32}), two(k, 64, 32, {.strides = {1, 64}}), block(8, 32));
               }),
               Contains("its last axis is not contiguous"));
    CHECK_THAT(
        refused([&](Kernel& k) { copies(k, k.shared<f32>("tile", {2, 8, 512}), two(k, 64, 512), block(8, 512)); }),
        Contains("the piece has extent 512 along axis 1, and a box at most 256; make several copies of it"));
    CHECK_THAT(refused([&](Kernel& k) { copies(k, k.shared<f32>("tile", {2, 64, 2}), two(k, 64, 32), block(64, 2)); }),
               Contains("rows of the piece have 8 bytes, and the copy engine moves multiples of 16"));
    CHECK_THAT(refused([&](Kernel& k) { copies(k, k.shared<f32>("tile", {2, 3, 4}), two(k, 64, 32), block(3, 4)); }),
               Contains("the piece of tile is not known to begin at a multiple of 128 bytes"));
}

TEST_CASE("tiles and pieces that the copy engine cannot take are refused on their line", "[lower][tensor_map]") {
    using Catch::Contains;
    CHECK_THAT(refused([&](Kernel& k) {
                   copies(k, k.shared<f32>("tile", {2, 8, 64}, {.bits = 3, .base = 2, .shift = 3}), two(k, 64, 64),
                          block(8, 64));
               }),
               Contains("tile has rows of 256 bytes under the swizzle (bits 3, base 2, shift 3), which the copy engine "
                        "does not write; cut the tile into rows of 32, 64 or 128 bytes"));
    CHECK_THAT(refused([&](Kernel& k) {
                   copies(k, k.shared<f32>("tile", {2, 8, 32}, {.bits = 2, .base = 2, .shift = 3}), two(k, 64, 32),
                          block(8, 32));
               }),
               Contains("declare the tile with operand_swizzle<f32>(32) and copy whole rows of it"));
    CHECK(refused([&](Kernel& k) {
              copies(k, k.shared<f32>("tile", {2, 8, 32}, operand_swizzle<f32>(32)), two(k, 64, 32), block(8, 32));
          }) == "");
    CHECK_THAT(refused([&](Kernel& k) {
                   copies(k, k.shared<f32>("tile", {2, 4, 32}, {.bits = 3, .base = 2, .shift = 3}), two(k, 64, 32),
                          block(4, 32));
               }),
               Contains("is not known to begin at a multiple of 1024 bytes"));
    CHECK_THAT(
        refused([&](Kernel& k) {
            k.grid(1);
            const auto x = two(k, 64, 32);
            const auto tile = k.shared<f32>("tile", {2, 8, 64});
            k.pipelined(
                4, {.stages = 2, .engine = Copies::tensor},
                [&](Index i, Index slot) { copy_async(tile[slot].window({8, 32}, {0, 0}), x.block({8, 32}, {i, 0})); },
                [](Index, Index) {});
        }),
        Contains("the piece of tile is not one run of elements"));
    CHECK_THAT(refused([&](Kernel& k) {
                   copies(k, k.shared<e2m1>("tile", {2, 8, 64}), k.input<e2m1>("x", {64, 64}), block(8, 64));
               }),
               Contains("elements of e2m1 share bytes; declare the tensor as u8, or copy by vectors"));
    CHECK_THAT(refused([&](Kernel& k) {
                   copies(k, k.shared<f32>("tile", {2, 1, 1, 1, 1, 8, 32}), k.input<f32>("x", {4, 1, 1, 1, 8, 32}),
                          [](const auto& x, Index i) { return x.window({1, 1, 1, 1, 8, 32}, {i, 0, 0, 0, 0, 0}); });
               }),
               Contains("the tensor has 6 axes, and such a map at most 5"));
    CHECK_THAT(refused([&](Kernel& k) {
                   k.grid(1);
                   const auto x = two(k, 64, 32);
                   const auto rows = load(k.input<i32>("rows", {8}).block({8}, {0}));
                   const auto tile = k.shared<f32>("tile", {2, 8, 32});
                   k.pipelined(
                       4, {.stages = 2, .engine = Copies::tensor},
                       [&](Index, Index slot) { copy_async(tile[slot].whole(), x.window({8, 32}, {rows, 0})); },
                       [](Index, Index) {});
               }),
               Contains("it is gathered by indices along axis 0"));
    CHECK_THAT(refused([&](Kernel& k) {
                   k.grid(1);
                   const auto x = two(k, 64, 32);
                   const auto tile = k.shared<f32>("tile", {2, 8, 32});
                   k.serial(2, [&](Index) {
                       k.pipelined(
                           4, {.stages = 2, .engine = Copies::tensor},
                           [&](Index i, Index slot) { copy_async(tile[slot].whole(), x.block({8, 32}, {i, 0})); },
                           [](Index, Index) {});
                   });
               }),
               Contains("k.pipelined with .engine = Copies::tensor stands in a loop or condition"));
}
