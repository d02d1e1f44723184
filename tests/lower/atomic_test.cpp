#include "tests/lower/run.hpp"

// Shared tiles as counters and tables: atomic additions, gathers and scatters by tiles of indices, against plain loops.

using namespace tessera;
using namespace tessera::test;

namespace {

constexpr std::int64_t bins = 37;

/// A block's histogram of the ids in its piece, then what each id's own bin holds.
template <Element Id, Element T>
Program histogram(const TileShape& s) {
    const std::int64_t each = s.rows * s.cols;
    return record("histogram", [=](Kernel& k) {
        const Dim n = k.dim("n");
        const auto ids = k.input<Id>("ids", {n}, {.align = 8});
        const auto sums = k.inout<T>("sums", {bins}, {.align = 8});
        const auto met = k.output<T>("met", {n}, {.align = 8});
        k.threads(s.threads);
        const auto [m] = k.grid(ceil_div(n, each));
        const auto own = k.shared<T>("own", {bins});
        store(own.whole(), full({bins}, Value<T, 0>(0)));
        const auto id = load(ids.block({each}, {m}), -1);
        atomic_add(own.window({each}, {id}), full({each}, Value<T, 0>(1)));
        atomic_add(own.window({each}, {id}), full({each}, Value<T, 0>(2)));
        atomic_add(sums.window({bins}, {0}), load(own.whole()));
        store(met.block({each}, {m}), load(own.window({each}, {id}), 77));
    });
}

template <Element Id, Element T, class Index, class Number>
void check_histogram() {
    for (const TileShape& s : tile_shapes())
        on_targets(histogram<Id, T>(s), [&](const Lowered& kernel) {
            CHECK(kernel.count<ir::AtomicAdd>() >= 3);
            const std::int64_t each = s.rows * s.cols;
            for (const std::int64_t n : {std::int64_t{1}, each, 2 * each + 3}) {
                auto ids = numbers<Index>(n, -3, bins + 2);
                std::vector<Number> sums(bins, 1000), met(static_cast<std::size_t>(n));
                std::vector<Number> expected_sums = sums, expected(met.size());
                const auto inside = [](Index id) { return id >= 0 && id < static_cast<Index>(bins); };
                for (std::int64_t first = 0; first < n; first += each) {
                    std::vector<Number> own(bins);
                    const std::int64_t end = std::min(n, first + each);
                    for (std::int64_t i = first; i < end; ++i)
                        if (inside(ids[i])) own[ids[i]] += 3;
                    for (std::int64_t i = first; i < end; ++i) expected[i] = inside(ids[i]) ? own[ids[i]] : 77;
                    for (std::int64_t b = 0; b < bins; ++b) expected_sums[b] += own[b];
                }
                kernel.run({static_cast<std::uint64_t>(n)}, ids, sums, met);
                REQUIRE(sums == expected_sums);
                REQUIRE(met == expected);
            }
        });
}

}  // namespace

TEST_CASE("a histogram in shared memory, of ids of 32 and 64 bits", "[lower]") {
    check_histogram<i32, i32, std::int32_t, std::int32_t>();
    check_histogram<i64, u64, std::int64_t, std::uint64_t>();
}

TEST_CASE("barriers around additions to shared memory, none between them", "[lower]") {
    const Lowered kernel(histogram<i32, i32>({16, 64, 256}), Target::h200());
    CHECK(kernel.count<ir::Barrier>() == 2);  // zeroed; added
}

TEST_CASE("scatters that follow each other need one barrier, what is between them another", "[lower]") {
    const auto barriers = [](bool load_between) {
        const Program p = record("scatters", [=](Kernel& k) {
            const auto y = k.output<i32>("y", {128});
            k.threads(64);
            k.grid(1);
            const auto tile = k.shared<i32>("tile", {128});
            const auto at = cast<i32>(coordinates({64}, axis<0>));
            store(tile.whole(), full({128}, Value<i32, 0>(0)));
            store(tile.window({64}, {127 - 2 * at}), at);
            auto second = at;
            if (load_between) second = load(tile.window({64}, {127 - at}));
            store(tile.window({64}, {126 - 2 * at}), second);
            store(y.window({128}, {0}), load(tile.whole()));
        });
        const Lowered kernel(p, Target::h200());
        std::vector<std::int32_t> y(128), expected(128);
        for (std::int32_t i = 0; i < 64; ++i) expected[127 - 2 * i] = i;
        const std::vector<std::int32_t> first = expected;
        for (std::int32_t i = 0; i < 64; ++i) expected[126 - 2 * i] = load_between ? first[127 - i] : i;
        kernel.run({}, y);
        CHECK(y == expected);
        return kernel.count<ir::Barrier>();
    };
    CHECK(barriers(false) == 2);
    CHECK(barriers(true) == 4);
}

TEST_CASE("rows of a shared tile by indices: a scatter that sorts and a gather that sorts back", "[lower]") {
    constexpr std::int64_t rows = 24, cols = 16;
    const Program sorting = record("sorting", [](Kernel& k) {
        const auto x = k.input<f32>("x", {rows, cols});
        const auto order = k.input<i32>("order", {rows});
        const auto sorted = k.output<f32>("sorted", {rows, cols});
        const auto again = k.output<f32>("again", {rows, cols});
        k.threads(64);
        k.grid(1);
        const auto tile = k.shared<f32>("tile", {rows, cols}, {.bits = 2, .base = 2, .shift = 3});
        const auto at = load(order.window({rows}, {0}));
        store(tile.whole(), full({rows, cols}, Value<f32, 0>(0.5f)));
        store(tile.window({rows, cols}, {at, 0}), load(x.window({rows, cols}, {0, 0})));
        store(sorted.window({rows, cols}, {0, 0}), load(tile.whole()));
        store(again.window({rows, cols}, {0, 0}), load(tile.window({rows, cols}, {at, 0}), -1.0f));
    });
    on_targets(sorting, [](const Lowered& kernel) {
        auto x = numbers<float>(rows * cols);
        std::vector<std::int32_t> order(rows);
        for (std::int64_t r = 0; r < rows; ++r) order[r] = static_cast<std::int32_t>((7 * r + 3) % rows);
        order[5] = -1, order[9] = rows, order[11] = INT32_MIN;
        std::vector<float> sorted(rows * cols), again(rows * cols), expected(rows * cols, 0.5f),
            back(rows * cols, -1.0f);
        for (std::int64_t r = 0; r < rows; ++r)
            for (std::int64_t c = 0; c < cols && order[r] >= 0 && order[r] < rows; ++c)
                expected[order[r] * cols + c] = back[r * cols + c] = x[r * cols + c];
        kernel.run({}, x, order, sorted, again);
        CHECK(sorted == expected);
        CHECK(again == back);
    });
}
