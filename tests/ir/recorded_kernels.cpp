#include <catch2/catch.hpp>
#include <tessera/dsl.hpp>

#include "dsl/ir/equal.hpp"
#include "dsl/ir/print.hpp"
#include "dsl/ir/verify.hpp"
#include "dsl/lower/lower.hpp"

// The rules, seen on programs that the front end records and the lowering makes.

using namespace tessera;

namespace {

Program rms_norm(std::int64_t hidden) {
    return record("rms_norm", [=](Kernel& k) {
        const Dim tokens = k.dim("tokens");
        auto x = k.input<bf16>("x", {tokens, hidden});
        auto y = k.output<bf16>("y", {tokens, hidden});
        const auto [m] = k.grid(tokens);
        auto squares = k.variable(full<f32>({1, 1}, Value<f32, 0>(0.0f)));
        k.serial(ceil_div(hidden, std::int64_t{1024}), [&](Index i) {
            auto v = cast<f32>(load(x.block({1, 1024}, {m, i})));
            squares = squares.get() + reduce_sum(v * v, axis<1>);
        });
        auto scale = rsqrt(squares.get() / static_cast<float>(hidden) + 1e-6f);
        k.serial(ceil_div(hidden, std::int64_t{1024}), [&](Index i) {
            auto v = cast<f32>(load(x.block({1, 1024}, {m, i})));
            store(y.block({1, 1024}, {m, i}), cast<bf16>(v * scale));
        });
    });
}

Program transpose() {
    return record("transpose", [](Kernel& k) {
        const Dim m = k.dim("m"), n = k.dim("n");
        auto x = k.input<bf16>("x", {m, n});
        auto y = k.output<bf16>("y", {n, m});
        const auto [a, b] = k.grid(ceil_div(m, 64), ceil_div(n, 64));
        auto tile = k.shared<bf16>("tile", {64, 64}, {3, 3, 6});
        store(tile.whole(), load(x.block({64, 64}, {a, b})));
        store(y.block({64, 64}, {b, a}), load(tile.whole()).permute<1, 0>());
    });
}

}  // namespace

TEST_CASE("recording one function twice gives equal programs with one text") {
    const Program a = rms_norm(7168), b = rms_norm(7168), other = rms_norm(7000);
    CHECK(ir::equal(a.ir(), b.ir()));
    CHECK(ir::print(a.ir()) == ir::print(b.ir()));
    CHECK_FALSE(ir::equal(a.ir(), other.ir()));
}

TEST_CASE("the line of a recording does not count") {
    const auto on = [](std::source_location here) {
        return record(
            "copy",
            [&](Kernel& k) {
                auto x = k.input<f32>("x", {64}, {}, here);
                auto y = k.output<f32>("y", {64}, {}, here);
                k.grid(1, here);
                store(y.block({64}, {0}, here), load(x.block({64}, {0}, here), {}, here), {}, here);
            },
            here);
    };
    const Program a = on(std::source_location::current());
    const Program b = on(std::source_location::current());
    CHECK(ir::equal(a.ir(), b.ir()));
    CHECK(ir::print(a.ir()) != ir::print(b.ir()));
}

TEST_CASE("what is recorded and what it lowers to keep every rule") {
    const Program programs[] = {rms_norm(7168), rms_norm(7001), transpose()};
    for (const Program& p : programs) {
        CHECK_NOTHROW(ir::verify(p.ir()));
        for (const Target& target : {Target::h200(), Target::b200()}) {
            const ir::Program lowered = lower::lower(p.ir(), target);
            CHECK_NOTHROW(ir::verify(lowered));
            CHECK(ir::equal(lowered, lower::lower(p.ir(), target)));
        }
    }
}
