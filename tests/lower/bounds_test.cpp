#include <limits>
#include <sys/mman.h>

#include "tests/lower/run.hpp"

// What is inside a tensor, where indices and offsets are as wrong as numbers can be: masks compare 32 bits, and must
// not be fooled by numbers that need more.

using namespace tessera;
using namespace tessera::test;

namespace {

constexpr std::int64_t two_31 = std::int64_t{1} << 31, two_32 = std::int64_t{1} << 32;

/// Rows by indices, then added to where a second list says.
template <Element I>
Program gathered() {
    return record("kernel", [](Kernel& k) {
        const Dim rows = k.dim("rows"), n = k.dim("n");
        const auto x = k.input<i32>("x", {rows, 8});
        const auto ids = k.input<I>("ids", {n});
        const auto y = k.output<i32>("y", {n, 8});
        const auto z = k.output<i32>("z", {rows, 8});
        k.threads(32);
        const auto [m] = k.grid(ceil_div(n, 16));
        const auto id = load(ids.window({16}, {m * 16}), Value<I, 0>(-1));
        const auto v = load(x.window({16, 8}, {id, 0}), Value<i32, 0>(77));
        store(y.window({16, 8}, {m * 16, 0}), v);
        store(z.window({16, 8}, {id, 0}), v + 1);
    });
}

template <Element I, class T>
void check_gather(std::vector<T> ids) {
    on_targets(gathered<I>(), [&](const Lowered& kernel) {
        const std::int64_t rows = 5, n = static_cast<std::int64_t>(ids.size());
        auto x = numbers<std::int32_t>(rows * 8);
        std::vector<std::int32_t> y(static_cast<std::size_t>(n * 8)), z(x.size(), -50), expected_z = z;
        kernel.run({rows, static_cast<std::uint64_t>(n)}, x, ids, y, z);
        for (std::int64_t i = 0; i < n; ++i)
            for (std::int64_t c = 0; c < 8; ++c) {
                const std::int64_t id = ids[static_cast<std::size_t>(i)];
                const bool inside = id >= 0 && id < rows;
                const auto at = inside ? static_cast<std::size_t>(id * 8 + c) : 0;
                REQUIRE(y[static_cast<std::size_t>(i * 8 + c)] == (inside ? x[at] : 77));
                if (inside) expected_z[at] = x[at] + 1;
            }
        REQUIRE(z == expected_z);
    });
}

/// Address space of zeros without memory behind it.
class Zeros {
public:
    explicit Zeros(std::size_t bytes) : bytes_(bytes) {
        data_ = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        REQUIRE(data_ != MAP_FAILED);
    }
    Zeros(const Zeros&) = delete;
    Zeros& operator=(const Zeros&) = delete;
    ~Zeros() { munmap(data_, bytes_); }
    std::uint8_t* data() const { return static_cast<std::uint8_t*>(data_); }

private:
    std::size_t bytes_;
    void* data_;
};

}  // namespace

TEST_CASE("gathers by indices that are negative, too large, or inside by their low bits only", "[lower]") {
    using I32 = std::numeric_limits<std::int32_t>;
    using I64 = std::numeric_limits<std::int64_t>;
    check_gather<i32, std::int32_t>({0, 4, 5, -1, -5, 3, I32::max(), I32::min(), I32::min() + 2, -I32::max(), 1, 2});
    check_gather<i64, std::int64_t>({0, 4, 5, -1, two_32, two_32 + 1, two_31, -two_31, -two_32, 3 - two_32, I64::max(),
                                     I64::min(), I64::min() + 3, 2, (std::int64_t{1} << 40) + 1, 1, 3});
}

TEST_CASE("indices into an axis longer than 2^31", "[lower]") {
    const Program p = record("kernel", [](Kernel& k) {
        const Dim rows = k.dim("rows");
        const auto x = k.input<u8>("x", {rows, 1});
        const auto near = k.input<i32>("near", {8});
        const auto far = k.input<i64>("far", {8});
        const auto y = k.output<u8>("y", {2, 8});
        k.threads(32);
        k.grid(1);
        const auto by = [&](const auto& ids) { return load(x.window({8, 1}, {ids, 0}), Value<u8, 0>(9)); };
        store(y[0].window({8}, {0}), by(load(near.window({8}, {0}))).squeeze(axis<1>));
        store(y[1].window({8}, {0}), by(load(far.window({8}, {0}))).squeeze(axis<1>));
    });
    const std::int64_t rows = 3 * two_31 / 2 + 5;  // an extent whose low 32 bits are negative
    const Zeros x(static_cast<std::size_t>(rows));
    const std::int64_t marks[] = {0, 12, two_31 - 1, two_31, two_31 + 3, rows - 1};
    for (std::size_t i = 0; i < 6; ++i) x.data()[marks[i]] = static_cast<std::uint8_t>(10 + i);
    on_targets(p, [&](const Lowered& kernel) {
        std::vector<std::int32_t> near = {0, 12, 2147483647, -1, -2147483647 - 1, 5, -5, 13};
        std::vector<std::int64_t> far = {0, two_31 - 1, two_31, two_31 + 3, rows - 1, rows, -1, two_32 + 12};
        std::vector<std::uint8_t> y(16);
        kernel.run_at({x.data(), near.data(), far.data(), y.data()}, {static_cast<std::uint64_t>(rows)});
        CHECK(y == std::vector<std::uint8_t>{10, 11, 12, 9, 9, 0, 9, 0, 10, 12, 13, 14, 15, 9, 9, 9});
    });
}

TEST_CASE("windows anywhere along an axis longer than 2^32", "[lower]") {
    for (const std::int64_t multiple : {1, 16}) {
        const Program p = record("kernel", [=](Kernel& k) {
            const Dim n = k.dim("n", multiple_of(multiple)), at = k.dim("at", multiple_of(multiple));
            const auto x = k.inout<u8>("x", {n}, {.align = static_cast<int>(multiple)});
            const auto y = k.output<u8>("y", {64});
            k.threads(32);
            k.grid(1);
            const auto v = load(x.window({64}, {at - 32}), Value<u8, 0>(9));
            store(y.window({64}, {0}), v);
            store(x.window({64}, {at - 32}), v + cast<u8>(coordinates({64}, axis<0>)));
        });
        const std::int64_t n = two_32 + 48;
        const Zeros x(static_cast<std::size_t>(n) + 4096);
        on_targets(p, [&](const Lowered& kernel) {
            for (const std::int64_t at : {std::int64_t{0}, std::int64_t{16}, two_31, two_31 - 16, two_32, n - 16, n,
                                          n + 32, n + 64, n + two_31, n + two_32, 3 * two_32, std::int64_t{1} << 50}) {
                INFO("at " << at);
                for (std::int64_t i = 0; i < 64; ++i)
                    if (at - 32 + i >= 0 && at - 32 + i < n + 64) x.data()[at - 32 + i] = 100;
                std::vector<std::uint8_t> y(64);
                kernel.run_at({x.data(), y.data()}, {static_cast<std::uint64_t>(n), static_cast<std::uint64_t>(at)});
                for (std::int64_t i = 0; i < 64; ++i) {
                    const std::int64_t c = at - 32 + i;
                    const bool inside = c >= 0 && c < n;
                    REQUIRE(y[static_cast<std::size_t>(i)] == (inside ? 100 : 9));
                    if (c >= 0 && c < n + 64) REQUIRE(x.data()[c] == (inside ? 100 + i : 100));
                }
            }
        });
    }
}

TEST_CASE("offsets from data, far before and far past a tensor", "[lower]") {
    const Program p = record("kernel", [](Kernel& k) {
        const Dim rows = k.dim("rows"), cols = k.dim("cols"), n = k.dim("n");
        const auto x = k.input<i16>("x", {rows, cols});
        const auto at = k.input<i64>("at", {n, 2});
        const auto y = k.output<i16>("y", {n, 4, 8});
        const auto [m] = k.grid(n);
        const auto v = load(x.window({4, 8}, {load(at[m][0]), load(at[m][1])}), Value<i16, 0>(50));
        store(y[m].window({4, 8}, {0, 0}), v);
    });
    on_targets(p, [](const Lowered& kernel) {
        const std::int64_t rows = 6, cols = 11;
        const std::int64_t offsets[] = {0,
                                        -1,
                                        -3,
                                        -4,
                                        3,
                                        5,
                                        6,
                                        10,
                                        two_31,
                                        two_31 - 2,
                                        two_32,
                                        two_32 + 1,
                                        -two_32,
                                        2 - two_32,
                                        -two_31,
                                        std::int64_t{1} << 60,
                                        -(std::int64_t{1} << 60)};
        auto x = numbers<std::int16_t>(rows * cols);
        std::vector<std::int64_t> at;
        for (const std::int64_t r : offsets)
            for (const std::int64_t c : offsets) at.insert(at.end(), {r, c});
        const std::size_t n = at.size() / 2;
        std::vector<std::int16_t> y(n * 32);
        kernel.run({rows, cols, n}, x, at, y);
        for (std::size_t i = 0; i < n; ++i)
            for (std::int64_t a = 0; a < 32; ++a) {
                const std::int64_t r = at[2 * i] + a / 8, c = at[2 * i + 1] + a % 8;
                const bool inside = r >= 0 && r < rows && c >= 0 && c < cols;
                REQUIRE(y[i * 32 + static_cast<std::size_t>(a)] ==
                        (inside ? x[static_cast<std::size_t>(r * cols + c)] : 50));
            }
    });
}

TEST_CASE("a negative number that is seen without its sign has no bound", "[lower]") {
    const Program p = record("unsigned_offset", [](Kernel& k) {
        const auto at = k.input<i32>("at", {1});
        const auto x = k.input<f32>("x", {64}, {.align = 4});
        const auto y = k.output<f32>("y", {1}, {.align = 4});
        k.threads(32);
        k.grid(1);
        const auto seen = cast<i64>(cast<u32>(min(load(at[0]), 5)));
        store(y.window({1}, {0}), load(x.window({1}, {seen}), 7.0f));
    });
    on_targets(p, [&](const Lowered& kernel) {
        for (const std::int32_t offset : {-1, 3, 100}) {
            std::vector<std::int32_t> at{offset};
            auto x = numbers<float>(64);
            std::vector<float> y(1);
            kernel.run({}, at, x, y);
            CHECK(y[0] == (offset < 0 ? 7.0f : x[static_cast<std::size_t>(std::min(offset, 5))]));
        }
    });
}
