#include <optional>

#include "dsl/lower/lower.hpp"
#include "tests/front/refused.hpp"

// What k.each_warp refuses while recording: sentences with the writer's line and the cure.

using namespace tessera;
using namespace tessera::test;

namespace {

/// The refusal of a kernel whose warps run `body(k, i, x)`, x an inout tensor of [64, 64].
template <class Body>
std::string refused_inside(Body&& body) {
    return refused([&](Kernel& k) {
        const auto x = k.inout<f32>("x", {64, 64});
        k.grid(1);
        k.each_warp(8, [&](Index i) { body(k, i, x); });
    });
}

const Value<f32, 1> zeros() { return full({64}, Value<f32, 0>(0.0f)); }

}  // namespace

TEST_CASE("warps by themselves share out no turns among themselves", "[front][each_warp]") {
    CHECK_THAT(refused_inside([](Kernel& k, Index, const auto&) { k.each_warp(2, [](Index) {}); }),
               says("k.each_warp inside another; a warp has nobody to share its turns with: use k.serial"));
    CHECK_THAT(refused([](Kernel& k) {
                   k.grid(1);
                   k.roles({.warps = 1}, [&] { k.each_warp(2, [](Index) {}); }, {.warps = 1}, [] {});
               }),
               says("k.each_warp in a role; a role of one warp is such a warp already"));
    CHECK_THAT(refused([](Kernel& k) {
                   const auto x = k.input<f32>("x", {64});
                   k.grid(1);
                   k.when(warp_all(load(x.window({64}, {0})) > 0.0f), [&] { k.each_warp(2, [](Index) {}); });
               }),
               says("in a condition by warps, where others may be missing; use a condition of the block"));
}

TEST_CASE("tiles and variables of the block stay outside of what warps run by themselves", "[front][each_warp]") {
    CHECK_THAT(refused([](Kernel& k) {
                   const auto x = k.inout<f32>("x", {64});
                   k.grid(1);
                   const auto v = load(x.window({64}, {0}));
                   k.each_warp(2, [&](Index) { store(x.window({64}, {0}), v); });
               }),
               says("a tile made outside of k.each_warp") && says("load it again inside"));
    CHECK_THAT(refused([](Kernel& k) {
                   const auto x = k.inout<f32>("x", {64});
                   k.grid(1);
                   auto v = k.variable(zeros());
                   k.each_warp(2, [&](Index) { store(x.window({64}, {0}), v.get()); });
               }),
               says("a variable made outside of k.each_warp is read in it") && says("hand it over in a shared tile"));
    CHECK_THAT(refused([](Kernel& k) {
                   const auto x = k.inout<f32>("x", {64}, {.align = 4});
                   k.grid(1);
                   auto n = k.variable(Value<f32, 0>(0.0f));
                   k.each_warp(2, [&](Index) { n = n.get() + 1.0f; });
                   store(x[0], n.get());
               }),
               says("a variable made outside of k.each_warp is assigned in it") && says("atomic_add"));
    CHECK_THAT(refused([](Kernel& k) {
                   const auto x = k.inout<f32>("x", {64}, {.align = 4});
                   k.grid(1);
                   std::optional<Value<f32, 0>> leaked;
                   k.each_warp(2, [&](Index i) { leaked = load(x[i]); });
                   store(x[0], *leaked);
               }),
               says("is used after it ended; carry it out with k.variable"));
}

TEST_CASE("what whole blocks do has no place where a warp is by itself", "[front][each_warp]") {
    CHECK_THAT(refused_inside([](Kernel& k, Index, const auto&) { k.grid_sync(); }),
               says("top level of a kernel only"));
    CHECK_THAT(refused_inside([](Kernel& k, Index, const auto&) { k.ring(); }), says("make it at the top level"));
    CHECK_THAT(refused_inside([](Kernel& k, Index, const auto&) { k.roles({.warps = 1}, [] {}, {.warps = 1}, [] {}); }),
               says("roles stand at the top level"));
    for (const Copies engine : {Copies::vectors, Copies::bulk, Copies::tensor})
        CHECK_THAT(refused_inside([&](Kernel& k, Index, const auto&) {
                       k.pipelined(4, {.stages = 2, .engine = engine}, [](Index, Index) {}, [](Index, Index) {});
                   }),
                   says("a pipeline inside k.each_warp; whole blocks count and wait for copies"));
    const std::string copies = "an asynchronous copy, or a wait for one, inside k.each_warp";
    CHECK_THAT(refused_inside([](Kernel& k, Index i, const auto& x) {
                   const auto tile = k.shared<f32>("tile", {8, 64});
                   copy_async(tile[i].whole(), x[i].window({64}, {0}));
               }),
               says(copies) && says("copy and wait ahead of it, or load the piece in it"));
    CHECK_THAT(refused_inside([](Kernel&, Index, const auto&) { wait_copies(); }), says(copies));
    CHECK_THAT(refused_inside([](Kernel& k, Index, const auto& x) {
                   k.when(warp_any(load(x[0].window({64}, {0})) > 0.0f), [] {});
               }),
               says("a condition by warps inside k.each_warp; there any(…) and all(…) are a warp's own already"));
    CHECK_THAT(refused_inside([](Kernel& k, Index, const auto& x) {
                   const auto b = k.shared<bf16>("b", {8, 64}, operand_swizzle<bf16>(64));
                   store(b.whole(), cast<bf16>(load(x.window({8, 64}, {0, 0}))));
                   const auto a = cast<bf16>(load(x.window({64, 64}, {0, 0})));
                   store(x.window({64, 8}, {0, 0}), mma(a, b.whole(), full({64, 8}, Value<f32, 0>(0.0f))));
               }),
               says("mma of an operand in shared memory inside k.each_warp; four warps together read it there"));
}

TEST_CASE("a tile of the block needs a power of two of threads", "[front][each_warp]") {
    const auto program = record("kernel", [](Kernel& k) {
        const auto x = k.inout<f32>("x", {96});
        k.threads(96);
        k.grid(1);
        store(x.window({96}, {0}), load(x.window({96}, {0})) + 1.0f);
    });
    CHECK_THROWS_WITH(lower::lower(program.ir(), Target::h200()),
                      says("in a block of 96 threads") && says("or in k.each_warp, or take such a number of threads"));
}
