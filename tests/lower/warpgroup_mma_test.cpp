#include <algorithm>
#include <cmath>

#include "dsl/base/convert.hpp"
#include "tests/lower/products.hpp"
#include "tests/lower/run.hpp"
#include "tests/support/random.hpp"

// Products whose operands tensor cores read in shared memory, against plain sums of small whole numbers, which are
// exact in any order: every type, swizzle and share of the four warps; by the instructions of single warps on the
// target that has no others.

using namespace tessera;
using namespace tessera::test;

namespace {

struct Sizes {
    std::int64_t m, n, k, width;  // width: of a part of K
    int threads = 128, warps = 0;
};

/// A whole tensor [rows, parts · width] to a tile [parts, rows, width], by copies or through registers.
template <Element T>
void stage(const Shared<T, 3>& tile, const Global<T, 2>& from, std::int64_t rows, std::int64_t width,
           std::int64_t parts, bool by_copies) {
    for (std::int64_t p = 0; p < parts; ++p)
        if (by_copies)
            copy_async(tile[p].whole(), from.block({rows, width}, {0, p}));
        else
            store(tile[p].whole(), load(from.block({rows, width}, {0, p})));
    if (by_copies) wait_copies();
}

template <Element T>
Program multiply(const Sizes& s, bool a_in_place, bool by_copies) {
    return record("multiply_in_place", [=](Kernel& k) {
        k.threads(s.threads);
        k.grid(1);
        const auto a = k.input<T>("a", {s.m, s.k}), b = k.input<T>("b", {s.n, s.k});
        const auto c = k.input<f32>("c", {s.m, s.n});
        const auto d = k.output<f32>("d", {s.m, s.n});
        const std::int64_t parts = s.k / s.width;
        const auto left = k.shared<T>("left", {parts, s.m, s.width}, operand_swizzle<T>(s.width));
        const auto right = k.shared<T>("right", {parts, s.n, s.width}, operand_swizzle<T>(s.width));
        const auto sum = load(c.block({s.m, s.n}, {0, 0}));
        stage(right, b, s.n, s.width, parts, by_copies);
        if (a_in_place) stage(left, a, s.m, s.width, parts, by_copies);
        const MmaOptions options{.warps = s.warps};
        store(d.block({s.m, s.n}, {0, 0}), a_in_place
                                               ? mma(left.whole(), right.whole(), sum, options)
                                               : mma(load(a.block({s.m, s.k}, {0, 0})), right.whole(), sum, options));
    });
}

template <Element T>
void multiply_all() {
    const std::int64_t line = 1024 / bits_of(T);  // of 128 bytes
    const std::vector<Sizes> sizes = {{64, 8, line, line},
                                      {64, 24, 2 * line, line},
                                      {128, 48, line, line / 2},
                                      {64, 16, line, line / 4},
                                      {128, 32, 2 * line, line, 256},
                                      {64, 64, line, line, 256},
                                      {192, 16, line, line / 2, 128, 4},
                                      {256, 16, line / 2, line / 2, 512, 8},
                                      {64, 256, line / 4, line / 4}};
    for (const Sizes& s : sizes)
        for (const bool a_in_place : {false, true})
            for (const bool by_copies : {false, true}) {
                INFO(name_of(T) << " " << s.m << " x " << s.n << " x " << s.k << " by " << s.width << ", " << s.threads
                                << " threads, a in place " << a_in_place << ", copies " << by_copies);
                const auto x = numbers<float>(s.m * s.k, -4, 4), y = numbers<float>(s.n * s.k, -3, 3);
                const auto z = numbers<float>(s.m * s.n);
                on_targets(multiply<T>(s, a_in_place, by_copies), [&](const Lowered& lowered) {
                    auto a = codes_of<T>(x), b = codes_of<T>(y);
                    auto c = z;
                    std::vector<float> d(static_cast<std::size_t>(s.m * s.n));
                    lowered.run({}, a, b, c, d);
                    CHECK(d == product(s, x, y, z));
                });
            }
}

}  // namespace

TEST_CASE("products of operands in shared memory: bf16") { multiply_all<bf16>(); }
TEST_CASE("products of operands in shared memory: f16") { multiply_all<f16>(); }
TEST_CASE("products of operands in shared memory: tf32") { multiply_all<tf32>(); }
TEST_CASE("products of operands in shared memory: e4m3") { multiply_all<e4m3>(); }

namespace {

/// One product of random numbers, on the host: how far it is from that of float64, in the sum of all terms' magnitudes.
template <Element T>
double furthest(const Sizes& s, bool a_in_place, std::uint64_t seed) {
    Random random(seed);
    const auto real = [&] { return static_cast<float>(2 * random.unit() - 1); };
    std::vector<float> x(static_cast<std::size_t>(s.m * s.k)), y(static_cast<std::size_t>(s.n * s.k));
    for (std::vector<float>* v : {&x, &y})
        for (float& f : *v) f = decode_float(T, encode_float(T, real()));
    std::vector<float> c(static_cast<std::size_t>(s.m * s.n)), d(c);
    for (float& f : c) f = real();
    auto a = codes_of<T>(x), b = codes_of<T>(y);
    const Lowered lowered(multiply<T>(s, a_in_place, false), Target::h200());
    lowered.run_at({a.data(), b.data(), c.data(), d.data()}, {});
    double most = 0;
    for (std::int64_t m = 0; m < s.m; ++m)
        for (std::int64_t n = 0; n < s.n; ++n) {
            double sum = c[m * s.n + n], size = std::fabs(sum);
            for (std::int64_t k = 0; k < s.k; ++k) {
                const double term = double{x[m * s.k + k]} * double{y[n * s.k + k]};
                sum += term, size += std::fabs(term);
            }
            most = std::max(most, std::fabs(d[m * s.n + n] - sum) / size);
        }
    return most;
}

}  // namespace

TEST_CASE("products in place of random shapes and numbers are those of float64, rounded once an instruction") {
    Random random(5);
    const auto of = [&](std::int64_t n) { return random.between(0, n - 1); };
    for (int i = 0; i < 24; ++i) {
        const std::int64_t narrow = std::int64_t{1} << of(3), parts = 1 + of(3);
        const Sizes s{64 * (1 + of(2)), 8 * (1 + of(8)), 0, 0};
        const auto check = [&](auto type, int bits) {
            const std::int64_t width = 1024 / bits / narrow;
            const Sizes sized{s.m, s.n, parts * width, width};
            INFO(s.m << " x " << s.n << " x " << sized.k << " by " << width);
            const double steps = static_cast<double>(sized.k * bits / 256);
            CHECK(furthest<decltype(type)::value>(sized, i % 2 == 0, 100 + static_cast<std::uint64_t>(i)) <=
                  steps * 0x1p-24);
        };
        switch (i % 4) {
            case 0: check(std::integral_constant<Element, bf16>(), 16); break;
            case 1: check(std::integral_constant<Element, tf32>(), 32); break;
            case 2: check(std::integral_constant<Element, e4m3>(), 8); break;
            default: check(std::integral_constant<Element, f16>(), 16);
        }
    }
}

TEST_CASE("the target decides about the instructions") {
    const Program program = multiply<bf16>({64, 24, 128, 64}, true, true);
    const Lowered hopper(program, Target::h200()), blackwell(program, Target::b200());
    CHECK(hopper.count<ir::WarpgroupMma>() == 1);
    CHECK(hopper.count<ir::MmaTile>() == 0);
    CHECK(hopper.count<ir::ProxyFence>() > 0);
    CHECK(blackwell.count<ir::WarpgroupMma>() == 0);
    CHECK(blackwell.count<ir::MmaTile>() == 1);
    CHECK(blackwell.count<ir::ProxyFence>() == 0);
}

TEST_CASE("operands in place come by a pipeline, and are read again") {
    constexpr std::int64_t rows = 64, columns = 16, width = 64, steps = 5;
    const Program program = record("multiply_steps", [&](Kernel& k) {
        const Dim tokens = k.dim("tokens");
        const auto [tile] = k.grid(ceil_div(tokens, rows));
        const auto a = k.input<bf16>("a", {tokens, steps * width}), b = k.input<bf16>("b", {columns, steps * width});
        const auto d = k.output<f32>("d", {tokens, columns}), squares = k.output<f32>("squares", {tokens, 1});
        const auto left = k.shared<bf16>("left", {3, rows, width}, operand_swizzle<bf16>(width));
        const auto right = k.shared<bf16>("right", {3, columns, width}, operand_swizzle<bf16>(width));
        auto sum = k.variable(full({rows, columns}, Value<f32, 0>(0.0f)));
        auto square = k.variable(full({rows, 1}, Value<f32, 0>(0.0f)));
        k.pipelined(
            steps, {.stages = 3},
            [&](Index i, Index slot) {
                copy_async(left[slot].whole(), a.block({rows, width}, {tile, i}));
                copy_async(right[slot].whole(), b.block({columns, width}, {0, i}));
            },
            [&](Index, Index slot) {
                sum = mma(left[slot].whole(), right[slot].whole(), sum.get());
                const auto v = cast<f32>(load(left[slot].whole()));
                square = square.get() + reduce_sum(v * v, axis<1>);
            });
        store(d.block({rows, columns}, {tile, 0}), sum.get());
        store(squares.block({rows, 1}, {tile, 0}), square.get());
    });
    const Sizes all{70, columns, steps * width, width};
    const auto x = numbers<float>(all.m * all.k, -4, 4), y = numbers<float>(all.n * all.k, -3, 3);
    std::vector<float> expected(static_cast<std::size_t>(all.m));
    for (std::int64_t i = 0; i < all.m * all.k; ++i) expected[i / all.k] += x[i] * x[i];
    on_targets(program, [&](const Lowered& lowered) {
        auto a = codes_of<bf16>(x), b = codes_of<bf16>(y);
        std::vector<float> d(static_cast<std::size_t>(all.m * all.n)), squares(expected.size());
        lowered.run({static_cast<std::uint64_t>(all.m)}, a, b, d, squares);
        CHECK(d == product(all, x, y, std::vector<float>(d.size())));
        CHECK(squares == expected);
    });
}

TEST_CASE("a product means what its operands held at its line") {
    const Sizes s{64, 8, 64, 64};
    const Program program = record("multiply_then_write", [&](Kernel& k) {
        k.grid(1);
        const auto a = k.input<bf16>("a", {s.m, s.k}), b = k.input<bf16>("b", {s.n, s.k});
        const auto d = k.output<f32>("d", {2 * s.m, s.n});
        const auto right = k.shared<bf16>("right", {s.n, s.k}, operand_swizzle<bf16>(s.k));
        const auto left = load(a.block({s.m, s.k}, {0, 0}));
        const auto zero = full({s.m, s.n}, Value<f32, 0>(0.0f));
        store(right.whole(), load(b.block({s.n, s.k}, {0, 0})));
        const auto first = mma(left, right.whole(), zero);
        store(right.whole(), load(right.whole()) + load(right.whole()));
        const auto second = mma(left, right.whole(), first);
        store(d.block({s.m, s.n}, {0, 0}), first);
        store(d.block({s.m, s.n}, {1, 0}), second);
    });
    const auto x = numbers<float>(s.m * s.k, -4, 4), y = numbers<float>(s.n * s.k, -3, 3);
    std::vector<float> expected = product(s, x, y, std::vector<float>(static_cast<std::size_t>(s.m * s.n)));
    for (std::int64_t i = 0; i < s.m * s.n; ++i) expected.push_back(3 * expected[i]);
    on_targets(program, [&](const Lowered& lowered) {
        auto a = codes_of<bf16>(x), b = codes_of<bf16>(y);
        std::vector<float> d(expected.size());
        lowered.run({}, a, b, d);
        CHECK(d == expected);
    });
}

TEST_CASE("a product of single warps is added to by four that read shared memory, and the reverse") {
    const Sizes s{64, 16, 16, 16};
    const Program program = record("engines", [&](Kernel& k) {
        k.threads(s.threads);
        k.grid(1);
        const auto x = k.input<bf16>("x", {s.m, s.k}), y = k.input<bf16>("y", {s.n, s.k});
        const auto d = k.output<f32>("d", {s.m, s.n});
        const auto right = k.shared<bf16>("right", {s.n, s.width}, operand_swizzle<bf16>(s.width));
        const auto a = load(x.block({s.m, s.k}, {0, 0})), b = load(y.block({s.n, s.k}, {0, 0}));
        store(right.whole(), b);
        const auto once = mma(a, b, full({s.m, s.n}, Value<f32, 0>(0.0f)));
        const auto twice = mma(a, right.whole(), once + 1.0f);
        store(d.block({s.m, s.n}, {0, 0}), mma(a, b, twice));
    });
    const auto x = numbers<float>(s.m * s.k, -4, 4), y = numbers<float>(s.n * s.k, -3, 3);
    auto expected = product(s, x, y, std::vector<float>(static_cast<std::size_t>(s.m * s.n)));
    for (float& e : expected) e = 3 * e + 1;
    on_targets(program, [&](const Lowered& lowered) {
        auto a = codes_of<bf16>(x), b = codes_of<bf16>(y);
        std::vector<float> d(expected.size());
        lowered.run({}, a, b, d);
        CHECK(d == expected);
    });
}

TEST_CASE("threads that do not make four warps for every 64 rows are refused") {
    const auto said = [](const Sizes& s, const Target& target = Target::h200()) {
        try {
            lower::lower(multiply<bf16>(s, true, true).ir(), target);
        } catch (const UsageError& error) {
            return std::string(error.what());
        }
        return std::string();
    };
    CHECK_THAT(said({64, 8, 64, 64, 64}), Catch::Contains("gives [64, 8] by 64 threads: each four warps must have"));
    CHECK_THAT(said({64, 8, 64, 64, 256}), Catch::Contains("columns, in multiples of 8 up to 256"));
    CHECK_THAT(said({128, 16, 64, 64, 256, 2}), Catch::Contains("256 threads, 2 warps along M"));
    CHECK(said({64, 16, 64, 64, 256}).empty());
    CHECK(said({64, 8, 64, 64, 64}, Target::b200()).empty());
}

TEST_CASE("a wait for products moves past what leaves their registers and shared memory alone") {
    const auto order = [](bool between, bool stores) {
        const Lowered lowered(record("order",
                                     [=](Kernel& k) {
                                         k.grid(1);
                                         const auto x = k.input<bf16>("x", {64, 64});
                                         const auto y = k.output<f32>("y", {64, 64});
                                         const auto z = k.output<bf16>("z", {64, 64});
                                         const auto tile = k.shared<bf16>("tile", {64, 64}, operand_swizzle<bf16>(64));
                                         const auto other = k.shared<bf16>("other", {64, 64});
                                         auto sum = k.variable(full({64, 64}, Value<f32, 0>(0.0f)));
                                         store(tile.whole(), load(x.block({64, 64}, {0, 0})));
                                         const auto p = mma(tile.whole(), tile.whole(), sum.get());
                                         if (!between) sum = p;
                                         if (stores)
                                             store(other.whole(), load(tile.whole()));
                                         else
                                             store(z.block({64, 64}, {0, 0}), load(tile.whole()));
                                         if (between) sum = p;
                                         store(y.block({64, 64}, {0, 0}), sum.get());
                                     }),
                              Target::h200());
        std::string letters;  // of the top level, from the product on
        for (const ir::Statement& s : lowered.program().body) {
            ir::Body one{s};
            ir::for_each_statement(one, [&](const ir::Statement& inner) {
                const auto* load = inner.as<ir::LoadVector>();
                const auto* store = inner.as<ir::StoreVector>();
                if (inner.as<ir::WarpgroupMma>()) letters += 'p';
                if (inner.as<ir::MmaWait>()) letters += 'w';
                if (load && load->access.space == ir::Space::shared && !letters.empty()) letters += 'l';
                if (store && store->access.space == ir::Space::shared && !letters.empty()) letters += 's';
            });
        }
        letters.erase(std::unique(letters.begin(), letters.end()), letters.end());
        return letters;
    };
    CHECK(order(true, false) == "plw");
    CHECK(order(false, false) == "pwl");
    CHECK(order(true, true) == "plws");
}

TEST_CASE("without its fence, its barrier or its wait a product is caught") {
    const Sizes s{64, 8, 128, 64};
    const Lowered sound(multiply<bf16>(s, true, true), Target::h200());
    const auto said = [&](auto&& spoil) {
        auto program = std::make_shared<ir::Program>(sound.program());
        std::erase_if(program->body, spoil);
        std::vector<std::uint16_t> a(static_cast<std::size_t>(s.m * s.k)), b(static_cast<std::size_t>(s.n * s.k));
        std::vector<float> c(static_cast<std::size_t>(s.m * s.n)), d(c);
        try {
            ir::verify(*program);
            host::Settings settings;
            settings.workers = 1;
            host::Executable(program).run({{a.data(), b.data(), c.data(), d.data()}, {}}, settings);
        } catch (const std::exception& error) {
            return std::string(error.what());
        }
        return std::string();
    };
    CHECK(said([](const ir::Statement&) { return false; }).empty());
    CHECK_THAT(said([](const ir::Statement& st) { return st.as<ir::ProxyFence>() != nullptr; }),
               Catch::Contains("have written to without a fence for tensor cores"));
    CHECK_THAT(said([](const ir::Statement& st) { return st.as<ir::Barrier>() != nullptr; }),
               Catch::Contains("a race; a barrier is missing between the two"));
    CHECK_THAT(said([](const ir::Statement& st) { return st.as<ir::WaitCopies>() != nullptr; }),
               Catch::Contains("which a copy that is under way writes"));
    CHECK_THAT(said([](const ir::Statement& st) { return st.as<ir::MmaWait>() != nullptr; }),
               Catch::Contains("rule \"mma-frozen\"") || Catch::Contains("rule \"mma-wait\""));
    CHECK_THAT(said([](const ir::Statement& st) { return st.as<ir::MmaFence>() != nullptr; }),
               Catch::Contains("rule \"mma-fence\""));
}

TEST_CASE("two roles of four warps multiply, each what it has stored") {
    const Sizes s{64, 16, 64, 64};
    const Program program = record("multiply_in_roles", [&](Kernel& k) {
        k.grid(1);
        const auto a = k.input<bf16>("a", {2 * s.m, s.k}), b = k.input<bf16>("b", {s.n, s.k});
        const auto d = k.output<f32>("d", {2 * s.m, s.n});
        const auto first = k.shared<bf16>("first", {s.n, s.k}, operand_swizzle<bf16>(s.k));
        const auto second = k.shared<bf16>("second", {s.n, s.k}, operand_swizzle<bf16>(s.k));
        const auto multiply_rows = [&](const Shared<bf16, 2>& tile, std::int64_t half) {
            store(tile.whole(), load(b.block({s.n, s.k}, {0, 0})));
            const auto zero = full({s.m, s.n}, Value<f32, 0>(0.0f));
            store(d.block({s.m, s.n}, {half, 0}), mma(load(a.block({s.m, s.k}, {half, 0})), tile.whole(), zero));
        };
        k.roles(
            {.name = "upper", .warps = 4}, [&] { multiply_rows(first, 0); }, {.name = "lower", .warps = 4},
            [&] { multiply_rows(second, 1); });
    });
    const Sizes all{2 * s.m, s.n, s.k, s.width};
    const auto x = numbers<float>(all.m * all.k, -4, 4), y = numbers<float>(all.n * all.k, -3, 3);
    on_targets(program, [&](const Lowered& lowered) {
        auto a = codes_of<bf16>(x), b = codes_of<bf16>(y);
        std::vector<float> d(static_cast<std::size_t>(all.m * all.n));
        lowered.run({}, a, b, d);
        CHECK(d == product(all, x, y, std::vector<float>(d.size())));
    });
}

TEST_CASE("what threads have copied is fenced after their wait, whatever barriers stand before") {
    const Sizes s{64, 8, 64, 64};
    const Program program = record("multiply_late", [&](Kernel& k) {
        k.grid(1);
        const auto a = k.input<bf16>("a", {s.m, s.k}), b = k.input<bf16>("b", {s.n, s.k});
        const auto d = k.output<f32>("d", {s.m, s.n});
        const auto right = k.shared<bf16>("right", {s.n, s.k}, operand_swizzle<bf16>(s.k));
        const auto turned = k.shared<bf16>("turned", {s.k, s.m});
        copy_async(right.whole(), b.block({s.n, s.k}, {0, 0}));
        store(turned.whole(), load(a.block({s.m, s.k}, {0, 0})).permute<1, 0>());
        const auto left = load(turned.whole()).permute<1, 0>();
        wait_copies();
        store(d.block({s.m, s.n}, {0, 0}), mma(left, right.whole(), full({s.m, s.n}, Value<f32, 0>(0.0f))));
    });
    const auto x = numbers<float>(s.m * s.k, -4, 4), y = numbers<float>(s.n * s.k, -3, 3);
    on_targets(program, [&](const Lowered& lowered) {
        auto a = codes_of<bf16>(x), b = codes_of<bf16>(y);
        std::vector<float> d(static_cast<std::size_t>(s.m * s.n));
        lowered.run({}, a, b, d);
        CHECK(d == product(s, x, y, std::vector<float>(d.size())));
    });
}
