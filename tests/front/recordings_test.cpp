#include <optional>

#include "dsl/ir/program.hpp"
#include "dsl/ir/verify.hpp"
#include "tests/front/refused.hpp"

// Values, tensors, tiles, variables and kernels belong to one recording and to the loop that made them.

using namespace tessera;
using namespace tessera::test;

namespace {

/// One of each, left over from a recording that is over.
struct Leftovers {
    std::optional<Value<f32, 2>> value;
    std::optional<Index> number;
    std::optional<Global<f32, 2>> tensor;
    std::optional<Shared<f32, 2>> tile;
    std::optional<Variable<f32, 2>> variable;

    Leftovers() {
        record("old", [&](Kernel& k) {
            k.grid(1);
            number.emplace(k.dim("n"));
            tensor.emplace(k.inout<f32>("old_x", {8, 8}));
            tile.emplace(k.shared<f32>("old_s", {8, 8}));
            value.emplace(full({8, 8}, Value<f32, 0>(1.0f)));
            // A variable is not copied or moved; its first has id 0 in every recording.
            k.variable(*value);
            variable.emplace(0);
        });
    }
};

}  // namespace

TEST_CASE("what is left over from another recording is refused wherever it is used", "[front]") {
    const Leftovers old;
    const auto uses = [&](auto use) {
        CHECK_THAT(refused([&](Kernel& k) {
                       k.grid(1);
                       const auto y = k.inout<f32>("y", {8, 8});
                       const auto s = k.shared<f32>("s", {8, 8});
                       auto v = k.variable(full({8, 8}, Value<f32, 0>(0.0f)));
                       use(k, y, s, v);
                   }),
                   says("another recording"));
    };
    uses([&](Kernel&, auto&, auto&, auto&) { *old.value + 1.0f; });
    uses([&](Kernel&, auto&, auto&, auto&) { -*old.value; });
    uses([&](Kernel&, auto&, auto&, auto&) { abs(*old.value); });
    uses([&](Kernel&, auto&, auto&, auto&) { old.value->extent(0); });
    uses([&](Kernel&, auto&, auto&, auto&) { old.value->merge(axis<0>); });
    uses([&](Kernel&, auto&, auto&, auto&) { reduce_sum(*old.value, axis<0>); });
    uses([&](Kernel&, auto& y, auto&, auto&) { store(y.block({8, 8}, {0, 0}), *old.value); });
    uses([&](Kernel&, auto& y, auto&, auto&) { load(y.window({8, 8}, {*old.number, 0})); });
    uses([&](Kernel&, auto& y, auto&, auto&) { load(y[*old.number].window({8}, {0})); });
    uses([&](Kernel& k, auto&, auto&, auto&) { k.serial(*old.number, [](Index) {}); });
    uses([&](Kernel& k, auto&, auto&, auto&) { k.input<f32>("z", {*old.number}); });
    uses([&](Kernel& k, auto&, auto&, auto&) { k.input<f32>("z", {8}, {.strides = {*old.number}}); });
    uses([&](Kernel& k, auto&, auto&, auto&) { k.variable(*old.value); });
    uses([&](Kernel&, auto&, auto&, auto& v) { v = *old.value; });
    uses([&](Kernel&, auto&, auto&, auto&) { load(old.tensor->block({8, 8}, {0, 0})); });
    uses([&](Kernel&, auto&, auto&, auto&) { load(old.tile->whole()); });
    uses([&](Kernel&, auto&, auto&, auto&) { old.variable->get(); });
    CHECK_THROWS_WITH(*old.value + 1.0f, says("outside record()"));
    CHECK_THROWS_WITH(old.value->extent(0), says("outside record()"));
    CHECK_THROWS_WITH(old.variable->get(), says("outside record()"));
}

TEST_CASE("a kernel recorded inside another keeps to itself", "[front]") {
    std::optional<Program> inner;
    const Program outer = record("outer", [&](Kernel& k) {
        k.grid(2);
        const auto y = k.output<f32>("y", {8});
        inner.emplace(record("inner", [](Kernel& other) {
            const auto [m] = other.grid(3);
            store(other.output<f32>("z", {8})[m], Value<f32, 0>(1.0f));
        }));
        store(y.window({8}, {0}), full({8}, Value<f32, 0>(2.0f)));
    });
    CHECK_NOTHROW(ir::verify(outer.ir()));
    CHECK_NOTHROW(ir::verify(inner->ir()));
    CHECK(outer.ir().body.size() == 1);
    CHECK(inner->ir().body.size() == 1);

    CHECK_THAT(refused([](Kernel& k) {
                   k.grid(1);
                   record("inner", [&](Kernel& other) {
                       other.grid(1);
                       k.output<f32>("y", {8});
                   });
               }),
               says("another recording"));
}

TEST_CASE("what a loop makes is gone after it", "[front]") {
    CHECK_THAT(refused([](Kernel& k) {
                   k.grid(1);
                   std::optional<Value<f32, 1>> v;
                   k.serial(4, [&](Index) { v.emplace(full({8}, Value<f32, 0>(0.0f))); });
                   *v + 1.0f;
               }),
               says("carry it out with k.variable"));
    CHECK_THAT(refused([](Kernel& k) {
                   k.grid(1);
                   std::optional<Index> i;
                   k.serial(4, [&](Index step) { i.emplace(step); });
                   load(k.input<f32>("x", {8}).window({1}, {*i}));
               }),
               says("carry it out with k.variable"));
    CHECK_THAT(refused([](Kernel& k) {
                   k.grid(1);
                   k.serial(4, [&](Index) { k.variable(full({8}, Value<f32, 0>(0.0f))); });
                   Variable<f32, 1>(0).get();
               }),
               says("make it ahead of the loop"));
}

TEST_CASE("numbers and dimensions made in a loop are good everywhere", "[front]") {
    const Program p = record("kernel", [](Kernel& k) {
        k.grid(1);
        const auto y = k.output<f32>("y", {8});
        std::optional<Index> n;
        std::optional<Value<f32, 0>> one;
        k.serial(4, [&](Index) { n.emplace(k.dim("n")), one.emplace(1.0f); });
        store(y.window({8}, {*n}), full({8}, *one));
    });
    CHECK_NOTHROW(ir::verify(p.ir()));
}

TEST_CASE("a loop whose body throws is closed", "[front]") {
    const Program p = record("kernel", [](Kernel& k) {
        k.grid(1);
        const auto y = k.output<f32>("y", {8});
        try {
            k.serial(4, [](Index) { throw 1; });
        } catch (int) {
        }
        store(y.window({8}, {0}), full({8}, Value<f32, 0>(2.0f)));
    });
    CHECK(p.ir().body.size() == 2);
    CHECK(p.ir().body.back().as<ir::Store>() != nullptr);
}

TEST_CASE("an error inside a recording leaves nothing behind", "[front]") {
    CHECK_THROWS_AS(record("kernel", [](Kernel& k) { k.serial(4, [](Index) { throw UsageError("stop"); }); }),
                    UsageError);
    CHECK_THROWS_WITH(full({2}, Value<f32, 0>(0.0f)), says("outside record()"));
    const Program p = record("kernel", [](Kernel& k) { k.grid(1); });
    CHECK(p.ir().body.empty());
}
