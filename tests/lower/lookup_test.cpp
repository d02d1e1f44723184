#include <cmath>

#include "tests/lower/run.hpp"

// Tables of codes, with tables for a whole tile, for groups larger and smaller than a word, and for each element.

using namespace tessera;
using namespace tessera::test;

namespace {

enum class Signs : std::uint8_t { all, of_groups, of_elements };

struct Form {
    std::int64_t rows, cols, group;
    int threads;
    bool aligned;
    Signs signs;
};

template <Element To>
Value<To, 3> mapped(const Value<e2m1, 3>& codes, const Value<f32, 3>* table, const Value<boolean, 3>* signs) {
    int i = 0;
    const auto entry = [&](float) { return cast<To>(table[i++]); };
    if constexpr (To != u8)
        if (signs) return map_magnitudes<To>(codes, entry, *signs);
    return map_magnitudes<To>(codes, entry);
}

/// "t" holds the entries of each group's table as exact numbers, "s" and "e" what the signs hang on.
template <Element To>
Program looked_up(const Form& f) {
    return record("kernel", [=](Kernel& k) {
        const Dim n = k.dim("n");
        const std::int64_t groups = f.cols / f.group;
        const int align = f.aligned ? 16 : 1;
        const auto x = k.input<e2m1>("x", {n, f.cols}, {.align = align});
        const auto t = k.input<f32>("t", {8, n, groups});
        const auto s = k.input<i32>("s", {n, groups});
        const auto e = k.input<i32>("e", {n, f.cols});
        const auto y = k.output<To>("y", {n, f.cols}, {.align = align});
        k.threads(f.threads);
        const auto [m] = k.grid(ceil_div(n, f.rows));
        const auto codes = load(x.block({f.rows, f.cols}, {m, 0})).split(axis<1>, f.group);
        std::vector<Value<f32, 3>> table;
        for (int i = 0; i < 8; ++i) table.push_back(load(t[i].block({f.rows, groups}, {m, 0})).unsqueeze(axis<2>));
        const auto out = [&] {
            if (f.signs == Signs::all) return mapped<To>(codes, table.data(), nullptr);
            const auto by_group = load(s.block({f.rows, groups}, {m, 0})).unsqueeze(axis<2>);
            const auto by_element = load(e.block({f.rows, f.cols}, {m, 0})).split(axis<1>, f.group);
            const Value<boolean, 3> signs =
                f.signs == Signs::of_groups ? (by_group + full({1, 1, f.group}, Value<i32, 0>(0)) > 0) : by_element > 0;
            return mapped<To>(codes, table.data(), &signs);
        }();
        store(y.block({f.rows, f.cols}, {m, 0}), out.merge(axis<1>));
    });
}

/// An exact number of the type, and its code, by index.
struct Number {
    float value;
    int code;
};
template <Element To>
Number number(std::uint32_t at) {
    if (To == u8) return {static_cast<float>(at % 256), static_cast<int>(at % 256)};
    constexpr float magnitudes[] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
    constexpr int e4m3_codes[] = {0x00, 0x30, 0x38, 0x3c, 0x40, 0x44, 0x48, 0x4c};
    const std::uint32_t i = at % 8;
    const bool negative = at / 8 % 2 != 0;
    return {std::copysign(magnitudes[i], negative ? -1.0f : 1.0f),
            To == e2m1 ? static_cast<int>(i + 8 * negative) : e4m3_codes[i] | negative << 7};
}

int nibble(const std::vector<std::uint8_t>& bytes, std::int64_t at) {
    return bytes[static_cast<std::size_t>(at / 2)] >> (at % 2 * 4) & 15;
}

template <Element To>
void check_lookup(const Form& f) {
    INFO(name_of(To) << " " << f.rows << "x" << f.cols << " by " << f.group << ", " << f.threads << " threads, aligned "
                     << f.aligned << ", signs " << static_cast<int>(f.signs));
    on_targets(looked_up<To>(f), [&](const Lowered& kernel) {
        const std::int64_t n = 2 * f.rows + (f.rows > 1 ? -1 : 0), groups = f.cols / f.group;
        auto x = numbers<std::uint8_t>(n * f.cols / 2, 0, 255);
        const auto which = numbers<std::uint32_t>(8 * n * groups, 0, 255);
        std::vector<float> t;
        for (const std::uint32_t w : which) t.push_back(number<To>(w).value);
        auto s = numbers<std::int32_t>(n * groups), e = numbers<std::int32_t>(n * f.cols);
        std::vector<std::uint8_t> y(static_cast<std::size_t>(n * f.cols * bits_of(To) / 8));
        kernel.run({static_cast<std::uint64_t>(n)}, x, t, s, e, y);
        for (std::int64_t r = 0; r < n; ++r)
            for (std::int64_t c = 0; c < f.cols; ++c) {
                const std::int64_t at = r * f.cols + c, group = r * groups + c / f.group;
                const int code = nibble(x, at);
                int expected = number<To>(which[static_cast<std::size_t>((code & 7) * n * groups + group)]).code;
                const bool signs = f.signs == Signs::all         ? true
                                   : f.signs == Signs::of_groups ? s[static_cast<std::size_t>(group)] > 0
                                                                 : e[static_cast<std::size_t>(at)] > 0;
                if (To != u8 && code >= 8 && signs) expected ^= To == e2m1 ? 0x8 : 0x80;
                const int got = To == e2m1 ? nibble(y, at) : y[static_cast<std::size_t>(at)];
                INFO("row " << r << " column " << c << " code " << code);
                REQUIRE(got == expected);
            }
    });
}

template <class T, Element E>
void check_or(const TileShape& shape, int along) {
    INFO(name_of(E) << " " << shape.rows << "x" << shape.cols << " along " << along << ", " << shape.threads
                    << " threads");
    const std::int64_t kept = along == 0 ? shape.cols : shape.rows;
    const Program p = record("kernel", [&](Kernel& k) {
        const auto x = k.input<E>("x", {shape.rows, shape.cols});
        const auto y = k.output<E>("y", {kept});
        const auto z = k.output<i64>("z", {kept});
        k.threads(shape.threads);
        k.grid(1);
        const auto v = load(x.window({shape.rows, shape.cols}, {0, 0}));
        const auto joined =
            along == 0 ? reduce_or(v, axis<0>).squeeze(axis<0>) : reduce_or(v, axis<1>).squeeze(axis<1>);
        store(y.window({kept}, {0}), joined);
        store(z.window({kept}, {0}), cast<i64>(joined));
    });
    on_targets(p, [&](const Lowered& kernel) {
        std::vector<T> x, y(static_cast<std::size_t>(kept));
        std::vector<std::int64_t> z(y.size());
        std::uint64_t state = 77;
        for (std::int64_t i = 0; i < shape.rows * shape.cols; ++i) {  // few bits, so that few are joined
            state = state * 6364136223846793005u + 1442695040888963407u;
            const bool any = (state >> 60) == 0 || shape.rows * shape.cols < 200;
            x.push_back(any ? static_cast<T>(std::uint64_t{1} << (state >> 33) % (8 * sizeof(T))) : T{0});
        }
        kernel.run({}, x, y, z);
        for (std::int64_t i = 0; i < kept; ++i) {
            T expected = 0;
            for (std::int64_t r = 0; r < shape.rows; ++r)
                for (std::int64_t c = 0; c < shape.cols; ++c)
                    if ((along == 0 ? c : r) == i)
                        expected = static_cast<T>(expected | x[static_cast<std::size_t>(r * shape.cols + c)]);
            REQUIRE(y[static_cast<std::size_t>(i)] == expected);
            REQUIRE(z[static_cast<std::size_t>(i)] == static_cast<std::int64_t>(expected));
        }
    });
}

}  // namespace

TEST_CASE("codes are looked up in the table of their group, larger or smaller than a word", "[lower]") {
    for (const Signs signs : {Signs::all, Signs::of_groups, Signs::of_elements})
        for (const bool aligned : {true, false})
            for (const std::int64_t group : {1, 2, 4, 8, 16, 64}) {
                const Form f{4, 64, group, 32, aligned, signs};
                check_lookup<e2m1>(f);
                check_lookup<e4m3>(f);
                if (signs == Signs::all) check_lookup<u8>(f);
            }
}

TEST_CASE("codes are looked up in tiles that fill a block badly", "[lower]") {
    for (const Form& f : {Form{3, 6, 2, 32, false, Signs::all}, Form{1, 10, 10, 128, false, Signs::of_groups},
                          Form{7, 96, 12, 64, true, Signs::of_groups}, Form{33, 40, 20, 32, true, Signs::of_elements},
                          Form{2, 2, 1, 32, false, Signs::all}}) {
        check_lookup<e2m1>(f);
        check_lookup<e4m3>(f);
    }
    check_lookup<u8>({3, 6, 3, 32, false, Signs::all});
    check_lookup<u8>({16, 256, 128, 256, true, Signs::all});
}

TEST_CASE("tables of constants, of one another, and in loops", "[lower]") {
    for (const bool aligned : {true, false}) {
        const Program p = record("kernel", [=](Kernel& k) {
            const auto x = k.input<e2m1>("x", {6, 32}, {.align = aligned ? 16 : 1});
            const auto y = k.output<e4m3>("y", {32}, {.align = aligned ? 16 : 1});
            const auto z = k.output<u8>("z", {32});
            k.threads(32);
            k.grid(1);
            auto sum = k.variable(full({32}, Value<u8, 0>(0)));
            auto last = k.variable(full({32}, Value<e4m3, 0>(0)));
            k.serial(6, [&](Index i) {
                const auto codes = load(x[i].window({32}, {0}));
                int at = 0;
                const auto turned = map_magnitudes<e2m1>(codes, [](float m) { return Value<e2m1, 0>(6.0f - m); });
                sum = sum.get() + map_magnitudes<u8>(turned, [&](float) { return 1u << at++; });
                last = map_magnitudes<e4m3>(turned, [](float m) { return Value<e4m3, 0>(m * m); });
            });
            store(z.window({32}, {0}), sum.get());
            store(y.window({32}, {0}), last.get());
        });
        on_targets(p, [](const Lowered& kernel) {
            auto x = numbers<std::uint8_t>(6 * 16, 0, 255);
            std::vector<std::uint8_t> y(32), z(32);
            kernel.run({}, x, y, z);
            // 6 − m of m = 0, 0.5, 1, 1.5, 2, 3, 4, 6, to the nearest even code; then codes' squares as e4m3.
            constexpr int turned[] = {7, 7, 6, 6, 6, 5, 4, 0},
                          squares[] = {0x00, 0x28, 0x38, 0x41, 0x48, 0x51, 0x58, 0x61};
            for (std::int64_t c = 0; c < 32; ++c) {
                int sum = 0;
                for (std::int64_t i = 0; i < 6; ++i) sum += 1 << turned[nibble(x, i * 32 + c) & 7];
                const int code = nibble(x, 5 * 32 + c);
                CHECK(z[static_cast<std::size_t>(c)] == sum % 256);
                CHECK(y[static_cast<std::size_t>(c)] == (squares[turned[code & 7]] | (code & 8) << 4));
            }
        });
    }
}

TEST_CASE("a code that is one for the whole block", "[lower]") {
    const Program p = record("kernel", [](Kernel& k) {
        const auto x = k.input<f32>("x", {16});
        const auto y = k.output<i32>("y", {16, 2});
        k.threads(32);
        const auto [m] = k.grid(16);
        const Value<f32, 0> v = load(x[m]);
        int at = 0;
        const auto low = map_magnitudes<u8>(cast<e2m1>(v), [&](float) { return 3 * at++; });
        const auto turned = map_magnitudes<e4m3>(cast<e2m1>(v), [&](float f) { return cast<e4m3>(v * f); }, v > -3.0f);
        store(y[m][0], cast<i32>(low));
        store(y[m][1], cast<i32>(bitcast<u8>(turned)));
    });
    on_targets(p, [](const Lowered& kernel) {
        std::vector<float> x;
        for (const float m : {0.0f, 0.5f, 1.0f, 1.5f, 2.0f, 3.0f, 4.0f, 6.0f}) x.insert(x.end(), {m, -m});
        std::vector<std::int32_t> y(32);
        kernel.run({}, x, y);
        constexpr int squares[] = {0x00, 0x28, 0x38, 0x41, 0x48, 0x51, 0x58, 0x61};
        for (std::size_t i = 0; i < 16; ++i) {
            // x · |x| with the sign of x again: taken back only above −3.
            const bool negative = i % 2 != 0;
            CHECK(y[2 * i] == static_cast<int>(3 * (i / 2)));
            CHECK(y[2 * i + 1] == (squares[i / 2] | (negative && i / 2 >= 5 ? 0x80 : 0)));
        }
    });
}

TEST_CASE("the codes that occur in each group, joined bit by bit", "[lower]") {
    for (const bool aligned : {true, false})
        for (const std::int64_t group : {2, 4, 8, 32, 128, 1024}) {
            INFO(group << " aligned " << aligned);
            const std::int64_t cols = 1024, groups = cols / group;
            const Program p = record("kernel", [=](Kernel& k) {
                const auto x = k.input<e2m1>("x", {4, cols}, {.align = aligned ? 16 : 1});
                const auto y = k.output<u8>("y", {4, groups});
                k.threads(64);
                k.grid(1);
                int at = 0;
                const auto bits = map_magnitudes<u8>(load(x.window({4, cols}, {0, 0})).split(axis<1>, group),
                                                     [&](float) { return 1u << at++; });
                store(y.window({4, groups}, {0, 0}), reduce_or(bits, axis<2>).squeeze(axis<2>));
            });
            on_targets(p, [&](const Lowered& kernel) {
                std::vector<std::uint8_t> x = numbers<std::uint8_t>(4 * cols / 2, 0, 255);
                for (std::size_t i = 0; i < x.size(); ++i)
                    if (i / 8 % 3 != 0) x[i] = static_cast<std::uint8_t>(x[i] & 0x92);
                std::vector<std::uint8_t> y(static_cast<std::size_t>(4 * groups));
                kernel.run({}, x, y);
                std::vector<int> expected(y.size());
                for (std::int64_t i = 0; i < 4 * cols; ++i)
                    expected[static_cast<std::size_t>(i / group)] |= 1 << (nibble(x, i) & 7);
                for (std::size_t i = 0; i < y.size(); ++i) REQUIRE(y[i] == expected[i]);
            });
        }
}

TEST_CASE("whole numbers of every width are joined along either axis", "[lower]") {
    for (const TileShape& shape : tile_shapes())
        for (const int along : {0, 1}) {
            check_or<std::uint8_t, u8>(shape, along);
            check_or<std::int8_t, i8>(shape, along);
            check_or<std::uint16_t, u16>(shape, along);
            check_or<std::int16_t, i16>(shape, along);
            check_or<std::uint32_t, u32>(shape, along);
            check_or<std::int32_t, i32>(shape, along);
            check_or<std::uint64_t, u64>(shape, along);
            check_or<std::int64_t, i64>(shape, along);
        }
}

TEST_CASE("lanes that share a table are looked up a word at a time", "[lower]") {
    const auto called = [](std::int64_t group, const char* helper) {
        const Lowered kernel(looked_up<e2m1>({4, 64, group, 32, true, Signs::all}), Target::h200());
        const std::string& text = kernel.text();
        return text.find(helper, text.find(" kernel(")) != std::string::npos;
    };
    for (const std::int64_t group : {64, 8}) {
        CHECK(called(group, "e2m1x8_lookup("));
        CHECK_FALSE(called(group, "e2m1_lookup("));
    }
    CHECK(called(4, "e2m1_lookup("));
    CHECK_FALSE(called(4, "e2m1x8_lookup("));
}
