#include "tests/support/gate_cases.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/core.h>
#include <limits>

namespace tessera::test {

std::string TopkCase::text() const {
    return fmt::format("{} tokens x {} groups x {} members, {} of them by {} best, shift {}, seed {}", tokens, groups,
                       members, topk, best, shift, seed);
}

std::vector<float> TopkCase::scores() const {
    Random random(seed);
    const int kind = static_cast<int>(random.between(0, 3));
    std::vector<float> all(static_cast<std::size_t>(tokens * groups * members));
    for (float& v : all) {
        v = static_cast<float>(random.unit() * 4 - 2);
        if (kind == 1) v = std::round(v * 4);  // many ties, both zeros
        if (kind == 2 && !random.one_in(4)) v = -INFINITY;
        if (kind == 3 && random.one_in(3))
            v = random.pick({0.0f, -0.0f, INFINITY, -INFINITY, std::numeric_limits<float>::quiet_NaN(),
                             -std::numeric_limits<float>::quiet_NaN(), 1e-45f, 3e38f});
    }
    return all;
}

std::vector<TopkCase> topk_cases(int count, bool groups) {
    Random random(groups ? 32 : 31);
    std::vector<TopkCase> cases;
    for (int i = 0; i < count; ++i) {
        TopkCase c{};
        c.groups = groups ? random.pick<std::int64_t>({1, 2, 3, 4, 8, 12, 16, 31, 32}) : 1;
        c.members = groups ? random.log_uniform(1, std::min<std::int64_t>(1024 / c.groups, 80))
                           : random.pick<std::int64_t>({1, 2, 8, 16, 32, 33, 36, 64, 72, 96, 108, 128, 144, 160, 256,
                                                        random.log_uniform(1, 400), 384, random.between(1, 40)});
        c.best = groups ? (c.members > 1 ? random.pick({1, 2}) : 1) : 0;
        const std::int64_t most = groups ? c.groups : std::min<std::int64_t>(c.members, 32);
        c.topk = random.one_in(6) ? most : random.between(1, std::min<std::int64_t>(most, 9));
        c.tokens = random.log_uniform(1, 20) - 1;
        c.shift = random.pick<std::int64_t>({0, 0, 1, 3});
        c.seed = random.next();
        cases.push_back(c);
    }
    return cases;
}

std::string GateCase::text() const {
    return fmt::format(
        "{} tokens, {} experts, {} of {} groups, {} slots, {} shared, score {}, map of {}, rank {} of {}, tp {} of {}, "
        "mask {}, fixed {}, unmapped {} at {}, seed {}",
        tokens, rules.experts, rules.chosen_groups, rules.groups, rules.topk, rules.shared,
        static_cast<int>(rules.score), rules.replicas, rules.ep_rank, rules.num_ep_ranks, rules.tp_rank,
        rules.num_tp_ranks, mask, fixed, unmapped, pitch, seed);
}

namespace {

void draw_map(Random& random, reference::GateRules& r) {
    const std::int64_t logical = r.replicas > 0 ? r.experts + r.shared : 0;
    for (std::int64_t i = 0; i < logical * r.replicas; ++i)
        r.map.push_back(static_cast<std::int32_t>(random.between(0, r.experts + r.replicas - 2)));
    for (std::int64_t e = 0; e < logical; ++e)
        r.count.push_back(static_cast<std::int32_t>(random.between(1, r.replicas)));
}

}  // namespace

std::vector<GateCase> gate_cases(int count) {
    Random random(33);
    std::vector<GateCase> cases;
    for (int i = 0; i < count; ++i) {
        GateCase c{};
        reference::GateRules& r = c.rules;
        r.groups = random.one_in(2) ? 1 : random.pick<std::int64_t>({2, 4, 8, 3});
        const std::int64_t members = r.groups == 1 ? random.log_uniform(1, 260) : random.log_uniform(2, 40);
        r.experts = r.groups * members;
        r.chosen_groups = random.between(1, r.groups);
        const std::int64_t most = std::min<std::int64_t>(r.chosen_groups * members, 30);
        r.topk = random.between(1, std::min<std::int64_t>(most, 10));
        r.score = random.pick({reference::Score::sigmoid, reference::Score::sqrtsoftplus, reference::Score::softmax});
        r.factor = random.pick({1.0f, 1.5f, 2.5f});
        r.shared = random.one_in(3) ? random.between(1, 2) : 0;
        if (r.shared > 0 && (r.topk % r.shared != 0 || r.experts % (r.topk / r.shared) != 0)) r.shared = 0;
        if (r.shared > 0 || random.one_in(3)) r.replicas = r.shared + random.between(1, 6);
        draw_map(random, r);
        const std::int64_t physical = r.experts + std::max<std::int64_t>(r.replicas - 1, 0);
        r.num_ep_ranks = random.between(1, std::min<std::int64_t>(physical, 8));
        r.num_tp_ranks = random.between(1, 4);
        r.tp_rank = random.between(0, r.num_tp_ranks - 1);
        r.ep_rank = random.between(0, 9);
        for (std::int64_t e = 0; e < r.experts; ++e) r.bias.push_back(static_cast<float>(random.unit() - 0.5));
        c.tokens = random.log_uniform(1, 12) - 1;
        c.mask = random.one_in(2), c.fixed = random.one_in(3), c.unmapped = c.fixed || random.one_in(2);
        c.pitch = r.topk + random.between(0, 3);
        c.seed = random.next();
        cases.push_back(c);
    }
    return cases;
}

std::string IdsCase::text() const {
    return fmt::format("{} tokens x {} slots of {} groups on {} ranks, tp {} of {}, shift {}, seed {}", tokens, topk,
                       groups, ranks, tp_rank, tp_ranks, shift, seed);
}

std::vector<std::int64_t> IdsCase::ids() const {
    Random random(seed);
    const bool strays = random.one_in(3);
    std::vector<std::int64_t> all(static_cast<std::size_t>(tokens * topk));
    for (std::int64_t& id : all) {
        id = random.one_in(4) ? -1 : random.between(0, groups - 1);
        if (strays && random.one_in(9))
            id = random.pick<std::int64_t>({groups, std::int64_t{1} << 32, std::int64_t{1} << 40, INT64_MAX});
    }
    return all;
}

std::vector<IdsCase> ids_cases(int count) {
    Random random(34);
    std::vector<IdsCase> cases;
    for (int i = 0; i < count; ++i) {
        IdsCase c{};
        c.topk = random.pick<std::int64_t>({1, 2, 6, 7, 8, 9, 17, 33});
        c.tokens = random.log_uniform(1, 400) - 1;
        c.groups = random.pick<std::int64_t>({1, 4, 8, 9, 32, 72, 128, 256, 4096, 5000});
        c.ranks = random.between(1, std::min<std::int64_t>(c.groups, 9));
        c.tp_ranks = random.between(1, 5), c.tp_rank = random.between(0, c.tp_ranks - 1);
        c.shift = random.pick<std::int64_t>({0, 0, 1});
        c.seed = random.next();
        cases.push_back(c);
    }
    return cases;
}

}  // namespace tessera::test
