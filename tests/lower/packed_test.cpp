#include "tests/lower/run.hpp"

// Elements that share bytes: e2m1, two a byte, and e5m6, eight in twelve bytes; moved in every way that whole bytes
// allow.

using namespace tessera;
using namespace tessera::test;

namespace {

constexpr std::int64_t side = 32;  // of the square tiles

/// Code `at` of a dense tensor: e2m1 lowest nibble first; eight e5m6 in three words, each from its highest bit down.
std::uint32_t element(Element type, const std::vector<std::uint8_t>& bytes, std::int64_t at) {
    if (type == e2m1) return bytes[static_cast<std::size_t>(at / 2)] >> (at % 2 * 4) & 15u;
    std::uint32_t code = 0;
    for (int b = 11; b >= 0; --b) {
        const std::int64_t from_top = at % 8 * 12 + 11 - b, word = from_top / 32, bit = 31 - from_top % 32;
        code = code * 2 + (bytes[static_cast<std::size_t>(at / 8 * 12 + word * 4 + bit / 8)] >> (bit % 8) & 1u);
    }
    return code;
}

template <Element T>
void check_moves() {
    const Program p = record("kernel", [](Kernel& k) {
        const Dim n = k.dim("n", multiple_of(8));
        const auto x = k.input<T>("x", {side, n});
        const auto ids = k.input<i32>("ids", {side});
        const auto y = k.output<T>("y", {5, side, n});
        const auto tile = k.shared<T>("tile", {side, side}, {2, 3, 5});
        k.threads(64);
        k.grid(1);
        const auto out = [&](int i) { return y[i].window({side, side}, {0, 0}); };
        const auto v = load(x.window({side, side}, {0, 0}));
        store(tile.whole(), v);
        store(out(0), load(tile.whole()));
        store(out(1), load(x.window({side, side}, {0, 0}), {.per_thread = {8, 8}}).template permute<1, 0>());
        const auto rows = load(x.window({side, side}, {load(ids.window({side}, {0})), 0}), Value<T, 0>(1));
        store(out(2), rows);
        store(out(3), select(coordinates({side, side}, axis<1>) % 3 == 0, v, rows));
        auto last = k.variable(rows);
        k.serial(2, [&](Index i) { last = load(x.window({side, side}, {i * 4, i * 8}), Value<T, 0>(1)); });
        store(out(4), last.get());
    });
    on_targets(p, [](const Lowered& kernel) {
        const std::int64_t n = side, bytes = side * n * bits_of(T) / 8;
        auto x = numbers<std::uint8_t>(bytes, 0, 255);
        auto ids = numbers<std::int32_t>(side, -3, side + 2);
        std::vector<std::uint8_t> y(static_cast<std::size_t>(5 * bytes));
        kernel.run({static_cast<std::uint64_t>(n)}, x, ids, y);
        const std::uint32_t one = T == e2m1 ? 2 : 15 << 6;
        const auto at = [&](std::int64_t r, std::int64_t c) {
            return r < 0 || r >= side || c >= n ? one : element(T, x, r * n + c);
        };
        for (std::int64_t r = 0; r < side; ++r)
            for (std::int64_t c = 0; c < side; ++c) {
                const auto got = [&](std::int64_t i) { return element(T, y, (i * side + r) * n + c); };
                const std::uint32_t gathered = at(ids[static_cast<std::size_t>(r)], c);
                REQUIRE(got(0) == at(r, c));
                REQUIRE(got(1) == at(c, r));
                REQUIRE(got(2) == gathered);
                REQUIRE(got(3) == (c % 3 == 0 ? at(r, c) : gathered));
                REQUIRE(got(4) == at(r + 4, c + 8));
            }
    });
}

}  // namespace

TEST_CASE("packed elements through shared memory, transposed, gathered, selected and carried", "[lower]") {
    check_moves<e2m1>();
    check_moves<e5m6>();
}

TEST_CASE("single packed elements are refused with the cure", "[lower]") {
    const auto refused = [](auto body) {
        const Program p = record("kernel", [&](Kernel& k) {
            const auto x = k.input<e2m1>("x", {64, 64});
            const auto y = k.output<e2m1>("y", {64, 64});
            k.grid(1);
            body(x, y);
        });
        try {
            lower::lower(p.ir(), Target::h200());
        } catch (const UsageError& error) {
            return std::string(error.what());
        }
        return std::string();
    };
    CHECK_THAT(refused([](auto x, auto y) { store(y.window({64, 7}, {0, 0}), load(x.window({64, 7}, {0, 0}))); }),
               Catch::Contains("packed_test.cpp:") && Catch::Contains("multiples of 2"));
    CHECK_THAT(refused([](auto x, auto y) { store(y[0][0], load(x[0][0])); }), Catch::Contains("multiples of 2"));
    CHECK_THAT(refused([](auto x, auto y) {
                   store(y.window({64, 16}, {0, 0}), load(x.window({16, 64}, {0, 0})).template permute<1, 0>());
               }),
               Catch::Contains("per_thread of at least 2"));
    CHECK_THAT(refused([](auto x, auto y) {
                   const auto turned = load(x.window({16, 64}, {0, 0})).template permute<1, 0>();
                   const auto straight = load(x.window({64, 16}, {0, 0}));
                   store(y.window({64, 16}, {0, 0}), select(coordinates({64, 16}, axis<0>) > 3, straight, turned));
               }),
               Catch::Contains("per_thread of at least 2"));
}
