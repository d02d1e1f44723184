#include "dsl/front/roles.hpp"

#include <set>

#include "tests/support/programs/steps.hpp"
#include "tests/support/programs/writer.hpp"

// Roles of warps: rings go from roles to roles further on in some order, so that none waits for itself.

namespace tessera::test {

/// One ring, and what a fill of it copies.
struct Writer::RingPlan {
    int ring, filler;
    std::set<int> users;
    std::vector<Stream> streams;
};

namespace {

int sum(const std::vector<int>& numbers) {
    int all = 0;
    for (const int n : numbers) all += n;
    return all;
}

}  // namespace

std::vector<Writer::RingPlan> Writer::plan_rings(int roles, const Length& turns) {
    std::vector<int> order;
    for (int r = 0; r < roles; ++r) order.insert(order.begin() + random_.between(0, r), r);
    std::vector<RingPlan> rings;
    for (std::int64_t n = random_.between(1, 3); n > 0; --n) {
        const std::int64_t from = random_.between(0, roles - 2);
        RingPlan plan{-1, order[static_cast<std::size_t>(from)], {}, {}};
        const int stages = random_.pick({1, 2, 2, 3, 4});
        for (std::int64_t i = random_.between(1, 2); i > 0; --i) {
            Stream s = bulk_stream(stages, turns);
            if (!s.tile.shape.empty()) plan.streams.push_back(std::move(s));
        }
        if (plan.streams.empty()) continue;
        while (plan.users.empty())
            for (std::int64_t to = from + 1; to < roles; ++to)
                if (random_.one_in(2)) plan.users.insert(order[static_cast<std::size_t>(to)]);
        plan.ring = detail::ring(stages, here());
        rings.push_back(std::move(plan));
    }
    return rings;
}

void Writer::fill(const RingPlan& plan, Ref turn) {
    auto start = [&](Ref slot) {
        for (const Stream& s : plan.streams) detail::copy_async(slot_of(s.tile, slot), s.at(turn), {}, here());
    };
    detail::ring_fill(plan.ring, detail::recording_now(), detail::FunctionRef<Ref>(start), here());
}

/// The rings from `next` on, in order: one use after the other, or inside it.
void Writer::turn_of(int role, const std::vector<RingPlan>& rings, const std::vector<std::vector<Sum>>& sums,
                     std::size_t next, Ref turn) {
    for (; next < rings.size(); ++next) {
        const RingPlan& plan = rings[next];
        if (plan.filler == role) fill(plan, turn);
        if (plan.users.count(role) == 0) continue;
        const bool nested = random_.one_in(3);
        auto use = [&](Ref slot) {
            for (std::size_t s = 0; s < plan.streams.size(); ++s) add_up(sums[next][s], plan.streams[s], slot);
            if (random_.one_in(3)) steps(1, 2);
            if (nested) turn_of(role, rings, sums, next + 1, turn);
        };
        detail::ring_use(plan.ring, detail::recording_now(), detail::FunctionRef<Ref>(use), here());
        if (nested) return;
    }
}

/// Loads of its own, turns in which it fills and uses rings, and stores. Turns come in one loop or two, the same in all
/// roles.
void Writer::write_role(int role, const std::vector<RingPlan>& rings, const Length& turns, const Length& more,
                        Ref condition) {
    load_tile();
    if (random_.one_in(2)) steps(random_.between(1, 3), 0);
    std::vector<std::vector<Sum>> sums;
    for (const RingPlan& plan : rings)
        sums.push_back(plan.users.count(role) > 0 ? sums_of(plan.streams) : std::vector<Sum>{});
    for (const Length* count : {&turns, &more}) {
        if (count->value < 0) continue;
        const Ref i = detail::open_serial(index(0), count->node, index(1), here());
        if (condition != nullptr) detail::open_when(condition, here());
        inside_scope([&] { turn_of(role, rings, sums, 0, i); });
        if (condition != nullptr) detail::close_scope();
        detail::close_scope();
    }
    const Length all{nullptr, 2 * std::max(turns.value, more.value), 1};
    for (std::size_t r = 0; r < rings.size(); ++r)
        if (!sums[r].empty()) read_sums(sums[r], rings[r].streams, all);
    if (random_.one_in(4)) product(0);
    if (random_.one_in(4)) product_in_place();
    steps(random_.between(1, 6), 0);
    for (std::int64_t n = random_.between(1, 2); n > 0; --n) random_.one_in(3) ? store_tile() : store_anything();
}

void Writer::write_roles() {
    const int roles = static_cast<int>(random_.between(2, 3));
    std::vector<int> warps;
    while (static_cast<int>(warps.size()) < roles) warps.push_back(random_.pick({1, 1, 2, 4, 4, 8}));
    const int threads = 32 * sum(warps);
    if (std::has_single_bit(static_cast<unsigned>(threads)) && random_.one_in(2)) {
        threads_ = threads;  // tiles outside of the roles lie with all threads
        load_tile();
        steps(random_.between(1, 5), 0);
        wait_for_copies();
        store_anything();
    }
    const Length turns = length("turns", random_.pick({0, 1, 2, 3, 5, 7}), 1);
    const Length more =
        random_.one_in(3) ? length("turns", random_.between(0, turns.value), 1) : Length{nullptr, -1, 1};
    const std::vector<RingPlan> rings = plan_rings(roles, turns);
    const Ref condition = random_.one_in(4) ? detail::binary(ir::BinaryOp::gt, block_[0], index(0), here()) : nullptr;

    std::vector<std::string> names;
    std::vector<RoleOptions> options;
    const bool whole_groups = std::all_of(warps.begin(), warps.end(), [](int w) { return w % 4 == 0; });
    const int budget = whole_groups && random_.one_in(2) ? std::min(65536 / threads / 8 * 8, 256) : 0;
    for (int r = 0; r < roles; ++r) names.push_back(name("role"));
    for (int r = 0; r < roles; ++r)
        options.push_back({names[static_cast<std::size_t>(r)].c_str(), warps[static_cast<std::size_t>(r)], budget});
    if (budget > 0 && budget < 256 && warps[0] == warps[1]) options[0].registers -= 24, options[1].registers += 24;

    in_role_ = true;
    copied_.clear();
    const std::vector<SharedTile> outside = std::move(shared_);  // one role may go on with them
    const int heir = static_cast<int>(random_.between(0, roles - 1));
    int next = 0;
    auto body = [&] {
        pool_.shrink(0);
        shared_ = next == heir ? outside : std::vector<SharedTile>{};
        threads_ = 32 * warps[static_cast<std::size_t>(next)];
        write_role(next, rings, turns, more, condition);
        first_warp_ += warps[static_cast<std::size_t>(next++)];
    };
    const std::vector<detail::FunctionRef<>> bodies(static_cast<std::size_t>(roles), detail::FunctionRef<>(body));
    detail::roles(options.data(), bodies.data(), roles, here());
}

}  // namespace tessera::test
