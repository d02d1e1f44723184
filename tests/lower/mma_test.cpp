#include <cmath>
#include <limits>

#include "dsl/base/convert.hpp"
#include "tests/lower/products.hpp"
#include "tests/lower/run.hpp"

// Products on tensor cores against plain sums of small whole numbers, which are exact in any order: every type, warps
// along either side, operands that lie across, in shared memory or in the layout of another product.

using namespace tessera;
using namespace tessera::test;

namespace {

struct Sizes {
    std::int64_t m, n, k;
    int threads, warps;
};

const std::vector<Sizes>& sizes() {
    static const std::vector<Sizes> all = {{16, 8, 32, 32, 0},    {16, 8, 96, 32, 1},    {64, 24, 64, 128, 0},
                                           {32, 64, 32, 128, 1},  {32, 64, 160, 256, 2}, {128, 16, 32, 64, 2},
                                           {256, 48, 64, 256, 0}, {16, 256, 32, 256, 1}};
    return all;
}

template <Element T>
Program multiply(const Sizes& s, std::int64_t step, bool across) {
    return record("multiply", [=](Kernel& k) {
        k.threads(s.threads);
        k.grid(1);
        const auto a = across ? k.input<T>("a", {s.k, s.m}) : k.input<T>("a", {s.m, s.k});
        const auto b = k.input<T>("b", {s.n, s.k});
        const auto c = k.input<f32>("c", {s.m, s.n});
        const auto d = k.output<f32>("d", {s.m, s.n});
        auto sum = k.variable(load(c.block({s.m, s.n}, {0, 0})));
        k.serial(s.k / step, [&](Index i) {
            const auto left = across ? load(a.block({step, s.m}, {i, 0})).template permute<1, 0>()
                                     : load(a.block({s.m, step}, {0, i}));
            sum = mma(left, load(b.block({s.n, step}, {0, i})), sum.get(), {.warps = s.warps});
        });
        store(d.block({s.m, s.n}, {0, 0}), sum.get());
    });
}

template <Element T>
void multiply_all() {
    for (const Sizes& s : sizes())
        for (const bool across : {false, true})
            for (const std::int64_t step : {std::int64_t{32}, s.k}) {
                INFO(name_of(T) << " " << s.m << " x " << s.n << " x " << s.k << " by " << step << ", across "
                                << across);
                const auto x = numbers<float>(s.m * s.k, -4, 4), y = numbers<float>(s.n * s.k, -3, 3);
                const auto z = numbers<float>(s.m * s.n);
                std::vector<float> turned = x;
                for (std::int64_t i = 0; across && i < s.m * s.k; ++i) turned[i % s.k * s.m + i / s.k] = x[i];
                on_targets(multiply<T>(s, step, across), [&](const Lowered& lowered) {
                    auto a = codes_of<T>(turned), b = codes_of<T>(y);
                    auto c = z;
                    std::vector<float> d(static_cast<std::size_t>(s.m * s.n));
                    lowered.run({}, a, b, c, d);
                    CHECK(d == product(s, x, y, z));
                });
            }
}

}  // namespace

TEST_CASE("products of every type, along and across") {
    multiply_all<bf16>();
    multiply_all<f16>();
    multiply_all<tf32>();
    multiply_all<e4m3>();
}

TEST_CASE("a product is an operand of the next, of itself, and is computed with") {
    const Sizes s{32, 32, 32, 64, 0};
    const Program program = record("chain", [&](Kernel& k) {
        k.threads(s.threads);
        k.grid(1);
        const auto x = k.input<bf16>("x", {s.m, s.k});
        const auto square = k.output<f32>("square", {s.m, s.m}), scaled = k.output<f32>("scaled", {s.m, s.m});
        const auto sums = k.output<f32>("sums", {s.m, 1});
        const auto v = load(x.block({s.m, s.k}, {0, 0}));
        const auto zero = full({s.m, s.m}, Value<f32, 0>(0.0f));
        const auto gram = mma(v, v, zero);
        store(square.block({s.m, s.m}, {0, 0}), gram);
        store(scaled.block({s.m, s.m}, {0, 0}), mma(cast<tf32>(gram), cast<tf32>(v), gram * 2.0f));
        store(sums.block({s.m, 1}, {0, 0}), reduce_sum(gram, axis<1>));
    });
    const auto v = numbers<float>(s.m * s.k, -2, 2);
    const std::vector<float> zero(static_cast<std::size_t>(s.m * s.m));
    const auto gram = product(s, v, v, zero);
    auto twice = gram;
    for (float& g : twice) g *= 2;
    on_targets(program, [&](const Lowered& lowered) {
        auto x = codes_of<bf16>(v);
        auto square = zero, scaled = zero;
        std::vector<float> sums(static_cast<std::size_t>(s.m)), expected(sums);
        lowered.run({}, x, square, scaled, sums);
        CHECK(square == gram);
        CHECK(scaled == product(s, gram, v, twice));
        for (std::int64_t i = 0; i < s.m * s.m; ++i) expected[i / s.m] += gram[i];
        CHECK(sums == expected);
    });
}

TEST_CASE("products that warps share along other sides add up and meet") {
    const Sizes s{64, 32, 32, 128, 0};
    const Program program = record("shares", [&](Kernel& k) {
        k.threads(s.threads);
        k.grid(1);
        const auto x = k.input<bf16>("x", {s.m, s.k}), y = k.input<bf16>("y", {s.n, s.k});
        const auto first = k.output<f32>("first", {s.m, s.n}), last = k.output<f32>("last", {s.m, s.n});
        const auto a = load(x.block({s.m, s.k}, {0, 0})), b = load(y.block({s.n, s.k}, {0, 0}));
        const auto once = mma(a, b, full({s.m, s.n}, Value<f32, 0>(0.0f)), {.warps = 4});
        auto sum = k.variable(once);
        sum = mma(a, b, sum.get() * 2.0f, {.warps = 1});
        store(first.block({s.m, s.n}, {0, 0}), once);
        store(last.block({s.m, s.n}, {0, 0}), mma(a, b, sum.get(), {.warps = 2}) - once);
    });
    const auto x = numbers<float>(s.m * s.k, -4, 4), y = numbers<float>(s.n * s.k, -3, 3);
    const auto once = product(s, x, y, std::vector<float>(static_cast<std::size_t>(s.m * s.n)));
    auto expected = once;
    for (float& e : expected) e *= 3;  // 2 + 1 + 1 − 1
    on_targets(program, [&](const Lowered& lowered) {
        auto a = codes_of<bf16>(x), b = codes_of<bf16>(y);
        std::vector<float> first(once.size()), last(once.size());
        lowered.run({}, a, b, first, last);
        CHECK(first == once);
        CHECK(last == expected);
    });
}

TEST_CASE("operands come from shared memory, and rows past the end are 0") {
    const Sizes s{64, 8, 64, 128, 0};
    const Program program = record("multiply_staged", [&](Kernel& k) {
        k.threads(s.threads);
        const Dim rows = k.dim("rows");
        const auto [tile] = k.grid(ceil_div(rows, s.m));
        const auto a = k.input<f16>("a", {rows, s.k}), b = k.input<f16>("b", {s.n, s.k});
        const auto d = k.output<f32>("d", {rows, s.n});
        auto staged = k.shared<f16>("staged", {s.m, s.k}, {.bits = 3, .base = 3, .shift = 3});
        copy_async(staged.window({s.m, s.k}, {0, 0}), a.block({s.m, s.k}, {tile, 0}));
        wait_copies();
        const auto right = load(b.block({s.n, s.k}, {0, 0}));
        const auto zero = full({s.m, s.n}, Value<f32, 0>(0.0f));
        store(d.block({s.m, s.n}, {tile, 0}), mma(load(staged.window({s.m, s.k}, {0, 0})), right, zero));
    });
    const Sizes all{70, s.n, s.k, 0, 0};
    const auto x = numbers<float>(all.m * s.k, -4, 4), y = numbers<float>(s.n * s.k, -3, 3);
    on_targets(program, [&](const Lowered& lowered) {
        auto a = codes_of<f16>(x), b = codes_of<f16>(y);
        std::vector<float> d(static_cast<std::size_t>(all.m * s.n), -1.0f);
        lowered.run({static_cast<std::uint64_t>(all.m)}, a, b, d);
        CHECK(d == product(all, x, y, std::vector<float>(d.size())));
    });
}

TEST_CASE("NaN and infinities come through a product") {
    const Sizes s{16, 8, 32, 32, 0};
    std::vector<float> x(static_cast<std::size_t>(s.m * s.k), 1.0f), y(static_cast<std::size_t>(s.n * s.k), 1.0f);
    x[3 * s.k + 7] = std::numeric_limits<float>::quiet_NaN();
    y[5 * s.k + 30] = INFINITY;
    on_targets(multiply<bf16>(s, s.k, false), [&](const Lowered& lowered) {
        auto a = codes_of<bf16>(x), b = codes_of<bf16>(y);
        std::vector<float> c(static_cast<std::size_t>(s.m * s.n)), d(c);
        lowered.run({}, a, b, c, d);
        for (std::int64_t i = 0; i < s.m * s.n; ++i) {
            INFO(i);
            if (i / s.n == 3)
                CHECK(std::isnan(d[i]));
            else
                CHECK(d[i] == (i % s.n == 5 ? INFINITY : 32.0f));
        }
    });
}

TEST_CASE("a product that the block's warps do not divide is refused") {
    const auto said = [](const Sizes& s) {
        try {
            lower::lower(multiply<bf16>(s, s.k, false).ir(), Target::h200());
        } catch (const UsageError& error) {
            return std::string(error.what());
        }
        return std::string();
    };
    CHECK_THAT(said({16, 8, 32, 64, 0}), Catch::Contains("mma gives [16, 8] by 2 warps, 1 of them along M"));
    CHECK_THAT(said({64, 24, 32, 128, 8}), Catch::Contains("8 of them along M"));
    CHECK(said({64, 24, 32, 128, 4}).empty());
}

TEST_CASE("the low 13 bits of a TF32 word count for nothing") {
    const Sizes s{16, 8, 32, 32, 0};
    const auto x = numbers<float>(s.m * s.k, -4, 4), y = numbers<float>(s.n * s.k, -3, 3);
    on_targets(multiply<tf32>(s, s.k, false), [&](const Lowered& lowered) {
        auto a = codes_of<tf32>(x), b = codes_of<tf32>(y);
        for (std::uint32_t& code : a) code |= 0x1FFFu;
        std::vector<float> c(static_cast<std::size_t>(s.m * s.n)), d(c);
        lowered.run({}, a, b, c, d);
        CHECK(d == product(s, x, y, c));
    });
}
