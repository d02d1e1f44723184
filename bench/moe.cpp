#include "kernels/moe.hpp"

#include <fmt/format.h>
#include <memory>

#include "bench/case.hpp"
#include "bench/inputs.hpp"
#include "bench/mapping.hpp"

namespace tessera::bench {

namespace {

constexpr std::int64_t hidden = 7168;

/// launch(set i mod count) over sets that make(i) gives.
template <class Make, class Launch>
std::function<void(int)> rotating(int count, Make make, Launch launch) {
    auto sets = std::make_shared<std::vector<decltype(make(0u))>>();
    for (int i = 0; i < count; ++i) sets->push_back(make(static_cast<unsigned>(i)));
    return [sets, launch, count](int i) { launch((*sets)[static_cast<std::size_t>(i % count)]); };
}

struct ExpandSet {
    Tensor x, x_sf, slots, expert, out, sf;
};

Case expand_case(const std::string& name, const MoeSet& set) {
    const Mapping map(set, 16);
    return {"expand_to_fused",
            name,
            (map.tokens + map.positions) * hidden * 2 + map.bytes(),
            [=](const Stream& s, int count) {
                return rotating(
                    count,
                    [&](unsigned seed) {
                        ExpandSet t;
                        t.x = random_tensor(s, bf16, {map.tokens, hidden}, seed);
                        t.slots = map.slots_on(s), t.expert = map.experts_on(s);
                        t.out = Tensor::empty(s, bf16, {map.positions, hidden});
                        return t;
                    },
                    [s](const ExpandSet& t) { moe::expand_to_fused(s, t.x, t.slots, t.expert, t.out); });
            },
            [topk = set.topk] { return moe::expand_to_fused_program(4, hidden / 2, topk, 16); },
            map.tokens * hidden};
}

Case expand_with_sf_case(const std::string& name, const MoeSet& set, std::int64_t group, bool packed) {
    const Mapping map(set, 16);
    const std::int64_t words = packed ? (hidden / group + 3) / 4 : hidden / group;
    const Element type = packed ? i32 : f32;
    const moe::ScaledExpandOptions options{group, packed};
    return {"expand_to_fused_with_sf",
            name,
            (map.tokens + map.positions) * (hidden + 4 * words) + map.bytes(),
            [=](const Stream& s, int count) {
                return rotating(
                    count,
                    [&](unsigned seed) {
                        ExpandSet t;
                        t.x = random_tensor(s, e4m3, {map.tokens, hidden}, seed);
                        t.x_sf = random_tensor(s, type, {map.tokens, words}, seed);
                        t.slots = map.slots_on(s), t.expert = map.experts_on(s);
                        const moe::Expanded out =
                            moe::expand_to_fused_with_sf(s, t.x, t.x_sf, t.slots, t.expert, options);
                        t.out = out.data, t.sf = out.sf;
                        return t;
                    },
                    [s, options](const ExpandSet& t) {
                        moe::expand_to_fused_with_sf(s, t.x, t.x_sf, t.slots, t.expert, t.out, t.sf, options);
                    });
            },
            [=, topk = set.topk] {
                return moe::expand_to_fused_program(
                    4, hidden / 4, topk, 16,
                    packed ? moe::ExpandedScales::column_major : moe::ExpandedScales::row_major_vectors, words);
            },
            map.tokens * hidden};
}

struct ReduceSet {
    Tensor x, slots, weights, x_sf, sf, out;
};

Case reduce_case(const std::string& name, const MoeSet& set, Element in, bool to_e4m3, bool with_sf) {
    const Mapping map(set, 1);
    const Element type = to_e4m3 ? e4m3 : in;
    const std::int64_t slots = map.tokens * set.topk;
    const moe::ReduceForm form{true, with_sf, to_e4m3, to_e4m3};
    return {"reduce_fused",
            name,
            (with_sf ? 12 : 8) * slots + map.tokens * hidden * bits_of(type) / 8 + set.valid * hidden * bits_of(in) / 8,
            [=](const Stream& s, int count) {
                return rotating(
                    count,
                    [&](unsigned seed) {
                        ReduceSet t;
                        t.x = random_tensor(s, in, {map.positions, hidden}, seed);
                        t.slots = map.slots_on(s);
                        t.weights = random_tensor(s, f32, {map.tokens, set.topk}, seed);
                        t.x_sf = random_tensor(s, f32, {map.positions}, seed);
                        t.sf = random_tensor(s, f32, {1}, seed);
                        t.out = Tensor::empty(s, type, {map.tokens, hidden});
                        return t;
                    },
                    [s, form](const ReduceSet& t) {
                        moe::ReduceOptions options;
                        options.topk_weights = t.weights;
                        if (form.x_sf) options.x_sf = t.x_sf;
                        options.to_e4m3 = form.to_e4m3;
                        if (form.sf) options.sf = t.sf;
                        moe::reduce_fused(s, t.x, t.slots, t.out, options);
                    });
            },
            [=, topk = set.topk] { return moe::reduce_fused_program(in, hidden, topk, form); },
            map.tokens * hidden};
}

void add_expand(std::vector<Case>& cases) {
    cases.push_back(expand_case("H=7168, ranks=64, E/rank=4, T=9910, k=2", {4, 2, 9910, 9990}));
    cases.push_back(expand_case("H=7168, ranks=8, E/rank=32, T=18599, k=6", {32, 6, 18599, 25810}));
    cases.push_back(expand_case("H=7168, ranks=8, E/rank=32, T=21744, k=8", {32, 8, 21744, 33420}));
    cases.push_back(expand_case("H=7168, ranks=8, E/rank=9, T=23269, k=9", {9, 9, 23269, 36400}));
    cases.push_back(expand_case("H=7168, ranks=8, E/rank=9, T=8004, k=2", {9, 2, 8004, 8472}));
    cases.push_back(expand_with_sf_case("H=7168, ranks=64, E/rank=4, group=32, T=9820, k=2, pow2=True, packed=True",
                                        {4, 2, 9820, 9890}, 32, true));
    cases.push_back(expand_with_sf_case("H=7168, ranks=8, E/rank=32, group=128, T=18636, k=6, pow2=True, packed=True",
                                        {32, 6, 18636, 25810}, 128, true));
    cases.push_back(expand_with_sf_case("H=7168, ranks=8, E/rank=32, group=32, T=21813, k=8, pow2=True, packed=False",
                                        {32, 8, 21813, 33620}, 32, false));
    cases.push_back(expand_with_sf_case("H=7168, ranks=8, E/rank=9, group=128, T=23228, k=9, pow2=True, packed=False",
                                        {9, 9, 23228, 36560}, 128, false));
    cases.push_back(expand_with_sf_case("H=7168, ranks=8, E/rank=9, group=32, T=7891, k=2, pow2=True, packed=False",
                                        {9, 2, 7891, 8350}, 32, false));
}

void add_reduce(std::vector<Case>& cases) {
    cases.push_back(
        reduce_case("H=7168, in=bf16, ranks=8, E/rank=32, T=18437, k=6, out=e4m3, with_sf=True, with_weights=True",
                    {32, 6, 18437, 25489}, bf16, true, true));
    cases.push_back(
        reduce_case("H=7168, in=bf16, ranks=8, E/rank=9, T=18431, k=6, out=bf16, with_sf=True, with_weights=True",
                    {9, 6, 18431, 24522}, bf16, false, true));
    cases.push_back(
        reduce_case("H=7168, in=fp32, ranks=64, E/rank=4, T=25021, k=6, out=e4m3, with_sf=False, with_weights=True",
                    {4, 6, 25021, 25832}, f32, true, false));
    cases.push_back(
        reduce_case("H=7168, in=fp32, ranks=8, E/rank=32, T=18510, k=6, out=fp32, with_sf=False, with_weights=True",
                    {32, 6, 18510, 25662}, f32, false, false));
    cases.push_back(
        reduce_case("H=7168, in=fp32, ranks=8, E/rank=9, T=18311, k=6, out=fp32, with_sf=True, with_weights=True",
                    {9, 6, 18311, 24437}, f32, false, true));
}

}  // namespace

std::vector<Case> moe_cases() {
    std::vector<Case> cases;
    add_expand(cases);
    add_reduce(cases);
    return cases;
}

}  // namespace tessera::bench
