#include <catch2/catch.hpp>
#include <chrono>
#include <cstdio>
#include <limits>
#include <random>
#include <thread>

#include "builder.hpp"
#include "dsl/base/error.hpp"

using namespace host_test;
using Catch::Matchers::Contains;

namespace {

/// y[b, t] = f32 arithmetic on the block's two grid coordinates and the thread.
Builder numbered(std::int64_t rows, std::int64_t cols) {
    Builder b("numbered", 64);
    const Ref n = b.i64c(rows * cols);
    const int y = b.tensor("y", f32, {{n, b.i64c(64)}, {b.i64c(64), b.i64c(1)}}, ir::Role::output);
    b.grid({b.i64c(rows), b.i64c(cols)});
    const Ref row = b.op(BinaryOp::div, b.block(), b.i64c(cols)), col = b.op(BinaryOp::mod, b.block(), b.i64c(cols));
    const Ref value = b.op(BinaryOp::div, b.cast(f32, b.add(b.mul(row, b.i64c(1000)), col)),
                           b.cast(f32, b.add(b.thread(), b.i32c(1))));
    b.store(access(ir::Space::global, y, {b.block(), b.thread64()}, b.add(b.mul(b.block(), b.i64c(64)), b.thread64())),
            {value});
    return b;
}

/// A cast of bf16 to e4m3 in groups of 128: per thread 4 vectors of 8 values, 16 lanes a group.
Builder group_cast() {
    Builder b("group_cast", 128);
    const Ref rows = b.scalar("rows");
    const std::int64_t cols = 4096;
    const int x = b.tensor("x", bf16, {{rows, b.i64c(cols)}, {b.i64c(cols), b.i64c(1)}});
    const int y = b.tensor("y", e4m3, {{rows, b.i64c(cols)}, {b.i64c(cols), b.i64c(1)}}, ir::Role::output);
    const int sf = b.tensor("sf", f32, {{rows, b.i64c(cols / 128)}, {b.i64c(cols / 128), b.i64c(1)}}, ir::Role::output);
    b.grid({rows});
    const int v = b.array("v", bf16, 2, 16);
    b.loop(b.i32c(0), b.i32c(4), b.i32c(1), true, [&](Ref slot) {
        const Ref col = b.let(b.cast(i64, b.add(b.mul(slot, b.i32c(1024)), b.mul(b.thread(), b.i32c(8)))));
        const Ref inside = b.both(b.less(b.block(), rows), b.less(col, b.i64c(cols)));
        b.load(access(ir::Space::global, x, {b.block(), col}, b.add(b.mul(b.block(), b.i64c(cols)), col), 8, inside), v,
               b.mul(slot, b.i32c(4)), b.constant(bf16, 0));
    });
    b.loop(b.i32c(0), b.i32c(4), b.i32c(1), true, [&](Ref slot) {
        const auto word = [&](int i) { return b.word(v, b.add(b.mul(slot, b.i32c(4)), b.i32c(i))); };
        Ref pair = b.abs(word(0));
        for (int i = 1; i < 4; ++i) pair = b.max(pair, b.abs(word(i)));
        Ref top = b.let(b.cast(f32, b.max(b.lane(pair, 0), b.lane(pair, 1))));
        for (int mask = 1; mask < 16; mask *= 2) top = b.let(b.max(top, b.shuffle(top, mask)));
        const Ref amax = b.let(b.max(top, b.f32c(1e-4f)));
        const Ref factor = b.let(b.op(BinaryOp::div, b.f32c(448), amax));
        const Ref col = b.let(b.cast(i64, b.add(b.mul(slot, b.i32c(1024)), b.mul(b.thread(), b.i32c(8)))));
        const Ref group = b.let(b.op(BinaryOp::div, col, b.i64c(128)));
        const Ref leader = b.op(BinaryOp::eq, b.op(BinaryOp::mod, b.thread(), b.i32c(16)), b.i32c(0));
        b.store(access(ir::Space::global, sf, {b.block(), group}, b.add(b.mul(b.block(), b.i64c(cols / 128)), group), 1,
                       leader),
                {b.op(BinaryOp::div, amax, b.f32c(448))});
        std::vector<Ref> words;
        for (int w = 0; w < 2; ++w) {
            std::vector<Ref> elements;
            for (int e = 0; e < 4; ++e)
                elements.push_back(b.cast(e4m3, b.mul(b.cast(f32, b.lane(word(2 * w + e / 2), e % 2)), factor)));
            words.push_back(b.pack(elements));
        }
        b.store(access(ir::Space::global, y, {b.block(), col}, b.add(b.mul(b.block(), b.i64c(cols)), col), 8), words);
    });
    return b;
}

}  // namespace

TEST_CASE("several workers share the blocks and every block runs once", "[host]") {
    const Builder b = numbered(7, 13);
    for (int workers : {0, 1, 2, 5}) {
        std::vector<float> out(91 * 64, -1.0f);
        b.executable().run({{out.data()}, {}}, {.check = workers == 2, .workers = workers});
        for (int i = 0; i < 91 * 64; ++i) {
            const int block = i / 64;
            REQUIRE(out[static_cast<std::size_t>(i)] ==
                    static_cast<float>(block / 13 * 1000 + block % 13) / static_cast<float>(i % 64 + 1));
        }
    }
}

TEST_CASE("one executable runs from several threads at once", "[host]") {
    const auto run = numbered(5, 5).executable();
    std::vector<std::vector<float>> outs(4, std::vector<float>(25 * 64));
    {
        std::vector<std::jthread> callers;
        for (auto& out : outs) callers.emplace_back([&run, &out] { run.run({{out.data()}, {}}); });
    }
    for (const auto& out : outs) CHECK(out == outs[0]);
    CHECK(outs[0][24 * 64] == 4004.0f);
}

TEST_CASE("an empty grid runs nothing", "[host]") {
    CHECK_NOTHROW(numbered(0, 13).executable().run({{nullptr}, {}}));
    Builder negative("negative", 32);
    negative.grid({negative.i64c(-1)});
    CHECK_THAT(error_of<UsageError>(negative.executable(), {}),
               Contains("kernel 'negative' has the negative extent -1"));
}

TEST_CASE("of all errors the lowest block's is reported, whatever the workers do", "[host]") {
    Builder b("late", 32);
    const int y = b.vector_tensor("y", i32, b.i64c(32 * 300));
    b.grid({b.i64c(1000)});
    b.store(global(y, b.add(b.mul(b.block(), b.i64c(32)), b.thread64())), {b.thread()});
    std::vector<std::int32_t> out(32 * 300);
    for (int i = 0; i < 20; ++i)
        REQUIRE_THAT(error_of<UsageError>(b.executable(), {{out.data()}, {}}, {.check = true, .workers = 4}),
                     Contains("block [300] of [1000]"));
}

TEST_CASE("wrong numbers of arguments are refused", "[host]") {
    CHECK_THAT(error_of<UsageError>(numbered(1, 1).executable(), {{}, {3}}),
               Contains("kernel 'numbered' takes 1 tensors and 0 scalars, but 0 and 1 were given"));
}

TEST_CASE("the group cast: equal bits in two runs, equal to plain loops, and how fast", "[host][speed]") {
    const std::int64_t rows = 1024, cols = 4096;
    const auto count = static_cast<std::size_t>(rows * cols);
    struct alignas(16) Vector {
        std::uint16_t v[8];
    };
    std::vector<Vector> x(count / 8), y(count / 16), again(count / 16);
    std::vector<float> sf(count / 128), sf_again(count / 128);
    std::mt19937 random(1);
    std::normal_distribution<float> normal(0.0f, 3.0f);
    for (Vector& eight : x)
        for (std::uint16_t& v : eight.v) v = static_cast<std::uint16_t>(convert::bits(normal(random)) >> 16);

    const auto run = group_cast().executable();
    run.run({{x.data(), y.data(), sf.data()}, {1}}, {.check = true, .workers = 1});
    const auto seconds_of = [&](bool check, std::int64_t some_rows) {
        const auto begin = std::chrono::steady_clock::now();
        run.run({{x.data(), again.data(), sf_again.data()}, {static_cast<std::uint64_t>(some_rows)}},
                {.check = check, .workers = 2});
        return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    };
    const double checked = seconds_of(true, rows / 16);
    double best = 1e9;
    for (int i = 0; i < 3; ++i) best = std::min(best, seconds_of(false, rows));
    std::printf("host executor, cast bf16 to e4m3: %.0f million elements/s, checked %.0f\n",
                static_cast<double>(count) / best / 1e6, static_cast<double>(count) / 16 / checked / 1e6);

    run.run({{x.data(), y.data(), sf.data()}, {static_cast<std::uint64_t>(rows)}}, {.check = false, .workers = 1});
    CHECK(std::memcmp(y.data(), again.data(), count) == 0);
    CHECK(sf == sf_again);

    const auto* values = x.data()->v;
    const auto* codes = reinterpret_cast<const std::uint8_t*>(y.data());
    std::size_t wrong = 0;
    for (std::size_t group = 0; group < count / 128; ++group) {
        float amax = 1e-4f;
        for (std::size_t i = 0; i < 128; ++i)
            amax = std::max(amax, std::fabs(decode_float(bf16, values[group * 128 + i])));
        const float factor = 448.0f / amax;
        wrong += sf[group] != amax / 448.0f;
        for (std::size_t i = 0; i < 128; ++i)
            wrong += codes[group * 128 + i] != encode_float(e4m3, decode_float(bf16, values[group * 128 + i]) * factor);
    }
    CHECK(wrong == 0);
}

TEST_CASE("memory that the system does not give is the caller's error", "[host]") {
    Builder b("greedy", 32);
    b.program->shared_bytes = std::numeric_limits<std::int64_t>::max();
    b.grid({b.i64c(2)});
    for (bool check : {true, false}) {
        const std::string text = error_of<UsageError>(b.executable(), {}, {.check = check, .workers = 2});
        CHECK_THAT(text, Contains("kernel 'greedy': the host executor gets no memory") &&
                             Contains("9223372036854775807 bytes of shared memory"));
    }
}
