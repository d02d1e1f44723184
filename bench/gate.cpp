#include <memory>

#include "bench/case.hpp"
#include "bench/inputs.hpp"
#include "kernels/moe_gate.hpp"
#include "kernels/moe_mapping.hpp"
#include "kernels/moe_routing.hpp"

// Gating and routing. Names and bytes are those of bench/reference.json.

namespace tessera::bench {

namespace {

using moe::Scoring;

/// launch(set i mod count) over sets that make(i) gives.
template <class Make, class Launch>
std::function<void(int)> rotating(int count, Make make, Launch launch) {
    auto sets = std::make_shared<std::vector<decltype(make(0u))>>();
    for (int i = 0; i < count; ++i) sets->push_back(make(static_cast<unsigned>(i)));
    return [sets, launch, count](int i) { launch((*sets)[static_cast<std::size_t>(i % count)]); };
}

Case topk_case(const std::string& name, std::int64_t tokens, std::int64_t experts, int k) {
    return {"topk_gate",
            name,
            tokens * (4 * experts + 8 * k),
            [=](const Stream& s, int count) {
                struct Set {
                    Tensor scores, out;
                };
                return rotating(
                    count,
                    [&](unsigned seed) {
                        return Set{random_tensor(s, f32, {tokens, experts}, seed), Tensor::empty(s, i64, {tokens, k})};
                    },
                    [s](const Set& t) { moe::topk_gate(s, t.scores, t.out); });
            },
            [=] { return moe::topk_gate_program(experts, k); },
            tokens * experts};
}

Case groups_case(const std::string& name, std::int64_t tokens, std::int64_t experts, std::int64_t groups,
                 const moe::GroupOptions& o) {
    const std::int64_t members = experts / groups;
    return {"topk_sum_and_topk_group_idx",
            name,
            tokens * (4 * experts + 8 * o.num_topk_groups),
            [=](const Stream& s, int count) {
                struct Set {
                    Tensor scores, out;
                };
                return rotating(
                    count,
                    [&](unsigned seed) {
                        return Set{random_tensor(s, f32, {tokens, groups, members}, seed),
                                   Tensor::empty(s, i64, {tokens, o.num_topk_groups})};
                    },
                    [s, o](const Set& t) { moe::topk_sum_and_topk_group_idx(s, t.scores, t.out, o); });
            },
            [=] { return moe::topk_sum_and_topk_group_idx_program(groups, members, o); },
            tokens * experts};
}

Case gate_case(const std::string& name, std::int64_t tokens, std::int64_t experts, int k, Scoring scoring) {
    moe::GateForm form{experts};
    form.topk = k, form.scoring = scoring, form.per_rank = experts / 4, form.num_tp_ranks = 2;
    form.mask = form.unmapped = true;
    return {"top2_sum_gate",
            name,
            4 * experts * (tokens + 1),
            [=](const Stream& s, int count) {
                struct Set {
                    Tensor logits, bias, mask, unmapped, ids, weights;
                };
                return rotating(
                    count,
                    [&](unsigned seed) {
                        const std::vector<std::uint8_t> all(static_cast<std::size_t>(tokens), 1);
                        return Set{random_tensor(s, f32, {tokens, experts}, seed),
                                   random_tensor(s, f32, {experts}, seed),
                                   Tensor::from_host(s, boolean, {tokens}, all.data()),
                                   Tensor::zeros(s, i64, {tokens, k}),
                                   Tensor::empty(s, i64, {tokens, k}),
                                   Tensor::empty(s, f32, {tokens, k})};
                    },
                    [=](const Set& t) {
                        moe::GateOptions o;
                        o.num_topk = k, o.scoring = scoring, o.routed_scaling_factor = 1.5f;
                        o.num_ep_ranks = 4, o.tp_rank = 1, o.num_tp_ranks = 2;
                        o.mask = t.mask, o.unmapped_topk_idx = t.unmapped;
                        moe::top2_sum_gate(s, t.logits, t.bias, t.ids, t.weights, o);
                    });
            },
            [=] { return moe::top2_sum_gate_program(form); },
            tokens * experts};
}

/// Ids of a layer's slots: about one of four is an expert of this rank, the rest −1.
Tensor ids_on(const Stream& stream, std::int64_t tokens, std::int64_t k, std::int64_t experts, unsigned seed) {
    std::vector<std::int64_t> ids(static_cast<std::size_t>(tokens * k));
    std::uint64_t state = seed + 1;
    for (std::int64_t& id : ids) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        const auto draw = static_cast<std::int64_t>(state >> 33);
        id = draw % 4 == 0 ? draw / 4 % experts : -1;
    }
    return Tensor::from_host(stream, i64, {tokens, k}, ids.data());
}

/// A kernel of ids with one output.
template <class Launch>
Case ids_case(const char* kernel, const std::string& name, std::int64_t bytes, std::int64_t tokens, std::int64_t k,
              std::int64_t experts, Element out, const Shape& extents, Launch launch,
              std::function<Program()> program) {
    return {
        kernel,
        name,
        bytes,
        [=](const Stream& s, int count) {
            struct Set {
                Tensor ids, out;
            };
            return rotating(
                count,
                [&](unsigned seed) { return Set{ids_on(s, tokens, k, experts, seed), Tensor::empty(s, out, extents)}; },
                [s, launch](const Set& t) { launch(s, t.ids, t.out); });
        },
        program,
        tokens * k};
}

struct IdsRow {
    std::int64_t ranks, experts, tokens, k, extra, more;
    std::string set() const { return "ranks=" + std::to_string(ranks) + ", E/rank=" + std::to_string(experts); }
    std::string size() const { return "T=" + std::to_string(tokens) + ", k=" + std::to_string(k); }
};

void add_counts(std::vector<Case>& cases) {
    const auto count = [](const Stream& s, const Tensor& ids, const Tensor& out) { moe::group_count(s, ids, out); };
    for (const IdsRow& r : {IdsRow{64, 4, 9857, 2, 0, 0},
                            {8, 32, 18690, 6, 0, 0},
                            {8, 32, 21925, 8, 0, 0},
                            {8, 9, 23176, 9, 0, 0},
                            {8, 9, 7970, 2, 0, 0}})
        cases.push_back(ids_case("group_count", r.set() + ", " + r.size(), 8 * r.tokens * r.k, r.tokens, r.k, r.experts,
                                 i32, {r.experts}, count,
                                 [r] { return moe::group_count_program(moe::count_plan(r.experts, r.tokens * r.k)); }));
    for (const IdsRow& r : {IdsRow{64, 4, 9907, 2, 1, 0},
                            {8, 32, 21958, 8, 1, 0},
                            {8, 9, 8126, 2, 1, 0},
                            {8, 32, 18488, 6, 6, 0},
                            {8, 9, 23281, 9, 9, 0}})
        cases.push_back(ids_case(
            "aux_fi", "num_aux_topk=" + std::to_string(r.extra) + ", " + r.set() + ", " + r.size(), 8 * r.tokens * r.k,
            r.tokens, r.k, r.experts, f32, {r.experts},
            [aux = r.extra](const Stream& s, const Tensor& ids, const Tensor& out) { moe::aux_fi(s, ids, out, aux); },
            [] { return moe::aux_fi_program(); }));
}

void add_rows(std::vector<Case>& cases) {
    for (const IdsRow& r : {IdsRow{64, 4, 10058, 2, 4, 2},
                            {8, 32, 18459, 6, 8, 6},
                            {8, 32, 21892, 8, 2, 0},
                            {8, 9, 23304, 9, 4, 0},
                            {8, 9, 8093, 2, 2, 0}}) {
        const moe::TensorParallel ranks{r.experts * r.ranks, r.ranks, r.more, r.extra};
        cases.push_back(ids_case(
            "mask_indices_by_tp",
            r.set() + ", " + r.size() + ", num_tp_ranks=" + std::to_string(r.extra) +
                ", tp_rank=" + std::to_string(r.more),
            16 * r.tokens * r.k, r.tokens, r.k, r.experts * r.ranks, i64, {r.tokens, r.k},
            [ranks](const Stream& s, const Tensor& ids, const Tensor& out) {
                moe::mask_indices_by_tp(s, ids, out, ranks);
            },
            [ranks, e = r.experts] { return moe::mask_indices_by_tp_program(e, ranks.num_tp_ranks); }));
    }
    for (const IdsRow& r : {IdsRow{64, 4, 10170, 2, 8, 0},
                            {8, 32, 18694, 6, 16, 0},
                            {8, 32, 21779, 8, 8, 0},
                            {8, 9, 23241, 9, 72, 0},
                            {8, 9, 8091, 2, 8, 0}})
        cases.push_back(ids_case(
            "inplace_unique_group_indices", r.set() + ", groups=" + std::to_string(r.extra) + ", " + r.size(),
            8 * r.tokens * r.k, r.tokens, r.k, r.extra, i64, {1, 1},
            [groups = r.extra](const Stream& s, const Tensor& ids, const Tensor&) {
                moe::inplace_unique_group_indices(s, ids, groups);
            },
            [k = r.k] { return moe::inplace_unique_group_indices_program(k); }));
}

Case normalize_case(const IdsRow& r) {
    return {"normalize_weight",
            r.set() + ", " + r.size(),
            4 * r.tokens * (2 * r.k + 1),
            [=](const Stream& s, int count) {
                struct Set {
                    Tensor weights, sums, out;
                };
                return rotating(
                    count,
                    [&](unsigned seed) {
                        return Set{random_tensor(s, f32, {r.tokens, r.k}, seed), Tensor::empty(s, f32, {r.tokens}),
                                   Tensor::empty(s, f32, {r.tokens, r.k})};
                    },
                    [s](const Set& t) { moe::normalize_weight(s, t.weights, t.sums, t.out); });
            },
            [k = r.k] { return moe::normalize_weight_program(k); },
            r.tokens * r.k};
}

/// With the number of rows given, so that nothing waits for the counts.
Case mapping_case(const IdsRow& r, moe::MappingOptions::Plan plan) {
    const std::int64_t slots = r.tokens * r.k, rows = slots / 4 + 128 * r.experts;
    return {"get_fused_mapping",
            (plan == moe::MappingOptions::four_launches ? "four launches, " : "") +
                ("alignment=128, " + r.set() + ", ") + r.size(),
            12 * slots + 12 * rows + 12 * r.experts,
            [=](const Stream& s, int count) {
                return rotating(
                    count, [&](unsigned seed) { return ids_on(s, r.tokens, r.k, r.experts, seed); },
                    [=](const Tensor& ids) { moe::get_fused_mapping(s, ids, {r.experts, 128, rows, false, plan}); });
            },
            [=] {
                return plan == moe::MappingOptions::four_launches
                           ? moe::place_slots_program(r.k)
                           : moe::map_slots_program(r.k, moe::mapping_plan(slots, r.experts, 132));
            },
            slots};
}

void add_gates(std::vector<Case>& cases) {
    for (const auto& [experts, k] : {std::pair{108, 6}, {144, 6}, {16, 6}, {64, 6}, {72, 6}})
        cases.push_back(topk_case("E=" + std::to_string(experts) + ", T=8001, k=6", 8001, experts, k));
    cases.push_back(topk_case("T=8001, E=256, k=8", 8001, 256, 8));
    cases.push_back(topk_case("T=8001, E=72, k=6", 8001, 72, 6));
    struct Groups {
        int experts, best, groups, taken;
    };
    for (const Groups& g : {Groups{256, 2, 4, 2}, {256, 2, 8, 4}, {72, 1, 12, 4}, {72, 1, 4, 2}, {72, 1, 8, 2}})
        cases.push_back(
            groups_case("E=" + std::to_string(g.experts) + ", num_group_sum_topk=" + std::to_string(g.best) +
                            ", groups=" + std::to_string(g.groups) + ", T=8001, topk groups=" + std::to_string(g.taken),
                        8001, g.experts, g.groups, {g.best, g.taken}));
    struct Row {
        int experts, shared;
        Scoring scoring;
        const char* label;
    };
    for (const Row& r : {Row{108, 2, Scoring::sqrtsoftplus, "sqrtsoftplus"},
                         {144, 2, Scoring::softmax, "softmax"},
                         {16, 2, Scoring::sqrtsoftplus, "sqrtsoftplus"},
                         {64, 2, Scoring::sigmoid, "sigmoid"},
                         {72, 1, Scoring::sigmoid, "sigmoid"}})
        cases.push_back(gate_case("groups=0, E=" + std::to_string(r.experts) + ", shared=" + std::to_string(r.shared) +
                                      ", k=6, topk groups=0, scoring_func=" + r.label,
                                  36, r.experts, 6, r.scoring));
    cases.push_back(gate_case("T=8001, E=256, k=8, scoring_func=sigmoid", 8001, 256, 8, Scoring::sigmoid));
}

}  // namespace

std::vector<Case> gate_cases() {
    std::vector<Case> cases;
    add_gates(cases);
    add_counts(cases);
    add_rows(cases);
    for (const IdsRow& r : {IdsRow{64, 4, 9803, 2, 0, 0},
                            {8, 32, 18663, 6, 0, 0},
                            {8, 32, 21780, 8, 0, 0},
                            {8, 9, 23366, 9, 0, 0},
                            {8, 9, 8037, 2, 0, 0}})
        cases.push_back(normalize_case(r));
    for (const IdsRow& r : {IdsRow{64, 4, 9813, 2, 0, 0},
                            {8, 32, 18795, 6, 0, 0},
                            {8, 32, 21987, 8, 0, 0},
                            {8, 9, 23206, 9, 0, 0},
                            {8, 9, 7902, 2, 0, 0}})
        for (const auto plan : {moe::MappingOptions::one_launch, moe::MappingOptions::four_launches})
            cases.push_back(mapping_case(r, plan));
    return cases;
}

}  // namespace tessera::bench
