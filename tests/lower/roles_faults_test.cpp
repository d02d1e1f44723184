#include <functional>

#include "tests/lower/run.hpp"

// Roles that cannot work together: what recording refuses, and what the host executor says of a program that lacks
// something.

using namespace tessera;
using namespace tessera::test;

namespace {

/// y = Σ x[i], copied by a role of one warp and added up by one of four.
Program sums() {
    return record("kernel", [](Kernel& k) {
        const auto x = k.input<f32>("x", {6, 8, 32});
        const auto y = k.output<f32>("y", {8, 32});
        k.grid(1);
        const auto tile = k.shared<f32>("tile", {2, 8, 32});
        const auto ring = k.ring({.stages = 2});
        k.roles(
            {.name = "copier", .warps = 1},
            [&] {
                k.serial(6, [&](Index i) {
                    ring.fill([&](Index slot) { copy_async(tile[slot].whole(), x[i].window({8, 32}, {0, 0})); });
                });
            },
            {.name = "adder", .warps = 4},
            [&] {
                auto sum = k.variable(full({8, 32}, Value<f32, 0>(0.0f)));
                k.serial(6, [&](Index) { ring.use([&](Index slot) { sum = sum.get() + load(tile[slot].whole()); }); });
                store(y.window({8, 32}, {0, 0}), sum.get() + reduce_max(sum.get(), axis<0>));
            });
    });
}

std::string said(ir::Program lowered) {
    std::vector<float> x(6 * 256, 1.0f), y(256);
    host::Settings settings;
    settings.workers = 1;
    try {
        host::Executable(std::make_shared<const ir::Program>(std::move(lowered)))
            .run({{x.data(), y.data()}, {}}, settings);
    } catch (const UsageError& error) {
        return error.what();
    }
    return "";
}

/// What is said of the lowered program after `change`, which is shown every statement until it gives true.
std::string said_after(const std::function<bool(ir::Body&, std::size_t)>& change) {
    ir::Program lowered = lower::lower(sums().ir(), Target::h200());
    const std::function<bool(ir::Body&)> walk = [&](ir::Body& body) {
        for (std::size_t i = 0; i < body.size(); ++i) {
            if (change(body, i)) return true;
            if (auto* loop = body[i].as<ir::For>(); loop && walk(loop->body)) return true;
        }
        return false;
    };
    REQUIRE(walk(lowered.body));
    return said(std::move(lowered));
}

template <class Kind>
auto without(const std::function<bool(const Kind&)>& which = [](const Kind&) { return true; }) {
    return [which](ir::Body& body, std::size_t i) {
        const auto* found = body[i].as<Kind>();
        if (!found || !which(*found)) return false;
        body.erase(body.begin() + static_cast<std::ptrdiff_t>(i));
        return true;
    };
}

std::string refused(const std::function<void(Kernel&)>& body) {
    try {
        Lowered(record("kernel",
                       [&](Kernel& k) {
                           k.grid(1);
                           body(k);
                       }),
                Target::h200());
    } catch (const UsageError& error) {
        return error.what();
    }
    return "";
}

/// Two roles of these warps and registers that fill and use a ring.
std::string of_warps(int a, int b, int registers_a = 0, int registers_b = 0) {
    return refused([=](Kernel& k) {
        const auto x = k.input<f32>("x", {8, 32});
        const auto tile = k.shared<f32>("tile", {2, 32});
        const auto ring = k.ring({.stages = 2});
        k.roles(
            {.name = "copier", .warps = a, .registers = registers_a},
            [&] { ring.fill([&](Index slot) { copy_async(tile[slot].whole(), x[0].block({32}, {0})); }); },
            {.name = "user", .warps = b, .registers = registers_b}, [&] { ring.use([&](Index) {}); });
    });
}

}  // namespace

TEST_CASE("roles that lack a wait, an arrival or a barrier are told so", "[lower][roles]") {
    CHECK(said(lower::lower(sums().ir(), Target::h200())) == "");
    CHECK_THAT(said_after(without<ir::WaitCopies>([](const auto& w) { return w.first_warp; })),
               Catch::Contains("roles_faults_test.cpp") &&
                   (Catch::Contains("meets a copy that is under way") || Catch::Contains("race on shared memory")));
    CHECK_THAT(said_after(without<ir::WaitCopies>([](const auto& w) { return !w.first_warp; })),
               Catch::Contains("meets a copy that is under way"));
    const std::string no_release = said_after(without<ir::Arrive>());
    CHECK_THAT(no_release, Catch::Contains("the roles wait for ever in block 0: role copier at ") &&
                               Catch::Contains("for empty[0] to complete its phase of parity 0; role adder at ") &&
                               Catch::Contains("for full[0] to complete its phase of parity 1"));
    CHECK_THAT(said_after(without<ir::CommitCopies>()),
               Catch::Contains("the roles wait for ever") && Catch::Contains("role adder at ") &&
                   Catch::Contains("for full[0] to complete its phase of parity 0"));
    CHECK_THAT(said_after(without<ir::InitMbarriers>()), Catch::Contains("that nothing has written"));
    CHECK_THAT(said_after([](ir::Body& body, std::size_t i) {
                   const ir::For* role = body[i].as<ir::For>();
                   if (!role || role->role != 1) return false;
                   auto& inside = body[i].as<ir::For>()->body;
                   for (std::size_t at = 0; at < inside.size(); ++at)
                       if (inside[at].as<ir::Barrier>()) return without<ir::Barrier>()(inside, at);
                   return false;
               }),
               Catch::Contains("race on shared memory"));
    // A slot that is given back before it is read.
    CHECK_THAT(said_after([](ir::Body& body, std::size_t i) {
                   if (!body[i].as<ir::Arrive>()) return false;
                   for (std::size_t at = 0; at < i; ++at)
                       if (body[at].as<ir::WaitCopies>()) {
                           std::swap(body[i], body[at]);
                           std::swap(body[i], body[at + 1]);
                           return true;
                       }
                   return false;
               }),
               !Catch::Equals(""));
    // One arrival fewer than warps: phases end before their time.
    CHECK_THAT(said_after([](ir::Body& body, std::size_t i) {
                   auto* init = body[i].as<ir::InitMbarriers>();
                   if (!init || init->arrivals != 4) return false;
                   init->arrivals = 8;
                   return true;
               }),
               Catch::Contains("the roles wait for ever"));
}

TEST_CASE("a slot that one of its users has not given back is not written to unnoticed", "[lower][roles]") {
    const auto program = record("kernel", [](Kernel& k) {
        const auto x = k.input<f32>("x", {6, 8, 32});
        const auto y = k.output<f32>("y", {8, 32});
        const auto z = k.output<f32>("z", {8, 32});
        k.grid(1);
        const auto tile = k.shared<f32>("tile", {2, 8, 32});
        const auto ring = k.ring({.stages = 2});
        const auto user = [&](const Global<f32, 2>& to) {
            return [&] {
                auto sum = k.variable(full({8, 32}, Value<f32, 0>(0.0f)));
                k.serial(6, [&](Index) { ring.use([&](Index slot) { sum = sum.get() + load(tile[slot].whole()); }); });
                store(to.window({8, 32}, {0, 0}), sum.get());
            };
        };
        k.roles({.name = "first", .warps = 2}, user(y), {.name = "second", .warps = 4}, user(z),
                {.name = "copier", .warps = 1}, [&] {
                    k.serial(6, [&](Index i) {
                        ring.fill([&](Index slot) { copy_async(tile[slot].whole(), x[i].window({8, 32}, {0, 0})); });
                    });
                });
    });
    // Only the arrivals of one role are waited for; the other's are left out, or come to nothing.
    for (const int silent : {0, 1}) {
        ir::Program lowered = lower::lower(program.ir(), Target::h200());
        ir::for_each_statement(lowered.body, [&](ir::Statement& s) {
            if (auto* init = s.as<ir::InitMbarriers>(); init && init->arrivals == 6)
                init->arrivals = silent == 0 ? 4 : 2;
            const ir::For* role = s.as<ir::For>();
            if (!role || role->role != silent) return;
            ir::for_each_statement(s.as<ir::For>()->body, [](ir::Statement& inner) {
                if (auto* loop = inner.as<ir::For>())
                    std::erase_if(loop->body, [](const ir::Statement& t) { return t.as<ir::Arrive>() != nullptr; });
            });
        });
        std::vector<float> x(6 * 256, 1.0f), y(256), z(256);
        host::Settings settings;
        settings.workers = 1;
        std::string what;
        try {
            host::Executable(std::make_shared<const ir::Program>(std::move(lowered)))
                .run({{x.data(), y.data(), z.data()}, {}}, settings);
        } catch (const UsageError& error) {
            what = error.what();
        }
        INFO("role " << silent);
        CHECK_THAT(what, Catch::Contains("race on shared memory: the store to tile") &&
                             Catch::Contains("is not ordered after the load of 'tile'"));
    }
}

TEST_CASE("fills without uses and uses without fills are told when they meet", "[lower][roles]") {
    const auto uneven = [](std::int64_t fills, std::int64_t uses) {
        const auto program = record("kernel", [=](Kernel& k) {
            const auto x = k.input<f32>("x", {8, 32});
            const auto y = k.output<f32>("y", {8, 32});
            k.grid(1);
            const auto tile = k.shared<f32>("tile", {2, 32});
            const auto ring = k.ring({.stages = 2});
            k.roles(
                {.name = "copier", .warps = 1},
                [&] {
                    k.serial(fills, [&](Index i) {
                        ring.fill([&](Index slot) { copy_async(tile[slot].whole(), x[i].block({32}, {0})); });
                    });
                },
                {.name = "user", .warps = 2},
                [&] {
                    k.serial(uses, [&](Index i) {
                        ring.use([&](Index slot) { store(y[i].block({32}, {0}), load(tile[slot].whole())); });
                    });
                });
        });
        std::vector<float> x(256), y(256);
        for (const bool check : {true, false}) {
            host::Settings settings;
            settings.workers = 1;
            settings.check = check;
            try {
                host::Executable(std::make_shared<const ir::Program>(lower::lower(program.ir(), Target::h200())))
                    .run({{x.data(), y.data()}, {}}, settings);
            } catch (const UsageError& error) {
                return std::string(error.what());
            }
        }
        return std::string();
    };
    CHECK(uneven(5, 5) == "");
    CHECK_THAT(uneven(3, 5), Catch::Contains("role copier is done; role user at ") &&
                                 Catch::Contains("for full[1] to complete its phase of parity 1; every ring.use"));
    CHECK_THAT(uneven(8, 5), Catch::Contains("role copier at ") && Catch::Contains("role user is done"));
    CHECK_THAT(uneven(6, 5), Catch::Contains("still under way when the block ends") &&
                                 Catch::Contains("ring.use for every ring.fill"));
}

TEST_CASE("warps and registers that a block does not have are refused", "[lower][roles]") {
    CHECK(of_warps(1, 4) == "");
    CHECK(of_warps(4, 8, 40, 232) == "");
    CHECK_THAT(of_warps(3, 4), Catch::Contains("role copier has 3 warps; a role has a power of two of them") &&
                                   Catch::Contains("roles_faults_test.cpp"));
    CHECK_THAT(of_warps(32, 1), Catch::Contains("the roles have 33 warps together; a block has 32 at most"));
    CHECK_THAT(of_warps(4, 8, 40, 0), Catch::Contains("role user has no budget of registers and another role has one"));
    CHECK_THAT(of_warps(4, 8, 41, 232), Catch::Contains("a budget is a multiple of 8 from 24 to 256"));
    CHECK_THAT(of_warps(4, 8, 16, 232), Catch::Contains("a budget is a multiple of 8 from 24 to 256"));
    CHECK_THAT(of_warps(1, 8, 40, 232), Catch::Contains("a role with a budget has whole ones"));
    CHECK_THAT(of_warps(4, 8, 48, 232),
               Catch::Contains("the budgets of the roles ask for 65536 registers; a block of 384 threads has 64512"));
}

namespace {

/// Two roles with these bodies, and things that they could touch.
const auto with = [](const auto& copy, const auto& use) {
    return refused([&](Kernel& k) {
        const auto x = k.inout<f32>("x", {8, 32});
        const auto y = k.inout<f32>("y", {8, 32});
        const auto tile = k.shared<f32>("tile", {2, 32});
        const auto other = k.shared<f32>("other", {32});
        const auto ring = k.ring({.stages = 2});
        const auto outside = load(x[0].block({32}, {0}));
        auto shared_state = k.variable(Value<i64, 0>(0));
        k.roles(
            {.name = "copier", .warps = 2}, [&] { copy(k, ring, tile, other, x, y, outside, shared_state); },
            {.name = "user", .warps = 2}, [&] { use(k, ring, tile, other, x, y, outside, shared_state); });
    });
};
const auto fill = [](Kernel&, auto& ring, auto& tile, auto&, auto& x, auto&...) {
    ring.fill([&](Index slot) { copy_async(tile[slot].whole(), x[1].block({32}, {0})); });
};
const auto use = [](Kernel&, auto& ring, auto& tile, auto&, auto&, auto& y, auto&...) {
    ring.use([&](Index slot) { store(y[1].block({32}, {0}), load(tile[slot].whole())); });
};

}  // namespace

TEST_CASE("rings that are not filled once and used elsewhere are refused", "[lower][roles]") {
    CHECK(with(fill, use) == "");
    const auto nothing = [](Kernel&, auto&...) {};
    CHECK_THAT(with(fill, nothing), Catch::Contains("a ring that no role uses"));
    CHECK_THAT(with(nothing, use), Catch::Contains("a ring that no role fills"));
    CHECK_THAT(with(fill, fill), Catch::Contains("a ring is filled by a second role"));
    CHECK_THAT(with([&](Kernel& k, auto&... all) { fill(k, all...), use(k, all...); }, use),
               Catch::Contains("a role uses the ring that it fills"));
    CHECK_THAT(with(fill,
                    [](Kernel&, auto& ring, auto& tile, auto&, auto&, auto& y, auto&...) {
                        ring.use([&](Index) {
                            ring.use([&](Index slot) { store(y[1].block({32}, {0}), load(tile[slot].whole())); });
                        });
                    }),
               Catch::Contains("ring.use inside ring.use of the same ring"));
}

TEST_CASE("roles that touch each other's things are refused", "[lower][roles]") {
    CHECK_THAT(
        with(
            [&](Kernel& k, auto& ring, auto& tile, auto& other, auto& x, auto&... rest) {
                fill(k, ring, tile, other, x, rest...);
                store(other.whole(), load(x[2].block({32}, {0})));
            },
            [&](Kernel& k, auto& ring, auto& tile, auto& other, auto& x, auto& y, auto&... rest) {
                use(k, ring, tile, other, x, y, rest...);
                store(y[3].block({32}, {0}), load(other.whole()));
            }),
        Catch::Contains("shared tile other is touched by the roles copier and user, and no ring orders the two"));
    CHECK_THAT(with(fill,
                    [&](Kernel& k, auto& ring, auto& tile, auto& other, auto& x, auto& y, auto&... rest) {
                        use(k, ring, tile, other, x, y, rest...);
                        store(x[3].block({32}, {0}), load(y[3].block({32}, {0})));
                    }),
               Catch::Contains("tensor x is written to by role user and read by role copier"));
    CHECK_THAT(with(fill,
                    [&](Kernel& k, auto& ring, auto& tile, auto& other, auto& x, auto& y, auto& outside, auto& s) {
                        use(k, ring, tile, other, x, y, outside, s);
                        store(y[3].block({32}, {0}), outside);
                    }),
               Catch::Contains("a tile made outside of the role") && Catch::Contains("roles_faults_test.cpp"));
    CHECK_THAT(with(fill,
                    [&](Kernel& k, auto& ring, auto& tile, auto& other, auto& x, auto& y, auto& outside, auto& s) {
                        use(k, ring, tile, other, x, y, outside, s);
                        s = s.get() + 1;
                    }),
               Catch::Contains("a variable made outside of the roles is used in one"));
    CHECK_THAT(with(
                   [&](Kernel& k, auto& ring, auto& tile, auto& other, auto& x, auto&... rest) {
                       fill(k, ring, tile, other, x, rest...);
                       copy_async(other.whole(), x[2].block({32}, {0}));
                   },
                   use),
               Catch::Contains("in a role copies go through a ring"));
    CHECK_THAT(with([&](Kernel&, auto& ring, auto&, auto& other, auto& x,
                        auto&...) { ring.fill([&](Index) { store(other.whole(), load(x[2].block({32}, {0}))); }); },
                    use),
               Catch::Contains("the function of ring.fill does more than start copies"));
    CHECK_THAT(with([&](Kernel&, auto& ring, auto&, auto& other, auto& x,
                        auto&...) { ring.fill([&](Index) { copy_async(other.whole(), x[2].block({32}, {0})); }); },
                    use),
               Catch::Contains("a copy of a ring of 2 stages goes to other [32]; its first axis must have"));
}

TEST_CASE("roles and rings in the wrong place are refused", "[lower][roles]") {
    const auto empty_roles = [](Kernel& k) { k.roles({.warps = 1}, [] {}, {.warps = 1}, [] {}); };
    CHECK(refused(empty_roles) == "");
    CHECK_THAT(refused([&](Kernel& k) { k.serial(2, [&](Index) { empty_roles(k); }); }),
               Catch::Contains("k.roles in a loop, a condition or another role"));
    CHECK_THAT(refused([&](Kernel& k) { empty_roles(k), empty_roles(k); }), Catch::Contains("k.roles is called twice"));
    CHECK_THAT(refused([&](Kernel& k) {
                   const auto y = k.output<f32>("y", {32});
                   empty_roles(k);
                   store(y.block({32}, {0}), full({32}, Value<f32, 0>(1.0f)));
               }),
               Catch::Contains("something follows k.roles"));
    CHECK_THAT(refused([&](Kernel& k) { k.serial(2, [&](Index) { k.ring(); }); }),
               Catch::Contains("a ring is made in a loop, a condition or a role"));
    CHECK_THAT(refused([&](Kernel& k) { k.ring({.stages = 33}); }), Catch::Contains("a ring of 33 stages"));
    CHECK_THAT(refused([&](Kernel& k) { k.ring().use([](Index) {}); }),
               Catch::Contains("ring.use outside of the roles"));
    CHECK_THAT(refused([&](Kernel& k) { k.roles({.warps = 1}, [&] { k.grid_sync(); }, {.warps = 1}, [] {}); }),
               Catch::Contains("grid_sync in a loop or a condition"));
    CHECK_THAT(refused([&](Kernel& k) {
                   k.roles(
                       {.warps = 1}, [&] { k.pipelined(2, {.stages = 2}, [](Index, Index) {}, [](Index, Index) {}); },
                       {.warps = 1}, [] {});
               }),
               Catch::Contains("a pipeline in a role"));
    // 96 threads: tiles of the whole block cannot be shared out.
    CHECK_THAT(refused([&](Kernel& k) {
                   const auto y = k.output<f32>("y", {32});
                   store(y.block({32}, {0}), full({32}, Value<f32, 0>(1.0f)));
                   k.roles({.warps = 1}, [] {}, {.warps = 2}, [] {});
               }),
               Catch::Contains("a tile outside of the roles, in a block of 96 threads"));
}
