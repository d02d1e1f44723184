#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <tessera/moe.hpp>
#include <tessera/runtime.hpp>
#include <vector>

#include "dsl/base/error.hpp"

// Hard rows, values worked out by hand, and what is refused.

using namespace tessera;
using Catch::Matchers::Contains;

namespace {

const Device host = Device::host();
constexpr float inf = INFINITY, not_a_number = std::numeric_limits<float>::quiet_NaN();

using Ids = std::vector<std::int64_t>;

template <class T>
Tensor on_host(Element element, const Shape& extents, const std::vector<T>& values) {
    return Tensor::from_host(host, element, extents, values.data());
}
Tensor floats(const Shape& extents, const std::vector<float>& values) { return on_host(f32, extents, values); }
Ids ids_of(const Tensor& t) { return {t.as<const std::int64_t>(), t.as<const std::int64_t>() + t.count()}; }
std::vector<float> floats_of(const Tensor& t) { return {t.as<const float>(), t.as<const float>() + t.count()}; }

Ids topk(std::int64_t experts, int k, const std::vector<float>& scores) {
    const auto rows = static_cast<std::int64_t>(scores.size()) / experts;
    return ids_of(moe::topk_gate(host.stream(), floats({rows, experts}, scores), k));
}
Ids upto(std::int64_t n) {
    Ids all(static_cast<std::size_t>(n));
    std::iota(all.begin(), all.end(), 0);
    return all;
}

}  // namespace

TEST_CASE("rows with few finite logits give the lowest others", "[gate][C13]") {
    std::vector<float> scores(2 * 72, -inf);
    scores[50] = 1, scores[7] = 3, scores[71] = 2;
    scores[72 + 1] = -5, scores[72 + 0] = -4, scores[72 + 30] = -6;
    CHECK(topk(72, 6, scores) == Ids{7, 71, 50, 0, 1, 2, 0, 1, 30, 2, 3, 4});
}

TEST_CASE("NaN ranks last, and ids stay distinct", "[gate][C14]") {
    CHECK(topk(72, 6, std::vector<float>(72, not_a_number)) == upto(6));
    std::vector<float> scores(72, -inf);
    scores[0] = not_a_number, scores[5] = 1;
    CHECK(topk(72, 6, scores) == Ids{5, 1, 2, 3, 4, 6});
    CHECK(topk(3, 3, {not_a_number, -inf, inf}) == Ids{2, 1, 0});
    CHECK(topk(4, 4, {-0.0f, 0.0f, -0.0f, 1.0f}) == Ids{3, 0, 1, 2});
}

TEST_CASE("equal logits give the first experts, by every score", "[gate][C15]") {
    CHECK(topk(384, 8, std::vector<float>(384, 0.25f)) == upto(8));
    for (const char* label : {"sigmoid", "SqrtSoftplus", "SOFTMAX"}) {
        moe::GateOptions o;
        o.num_topk = 8, o.scoring = moe::scoring_of(label);
        const auto gated = moe::top2_sum_gate(host.stream(), floats({1, 384}, std::vector<float>(384, -1.5f)),
                                              floats({384}, std::vector<float>(384, 0.5f)), o);
        CHECK(ids_of(gated.topk_idx) == upto(8));
        for (float w : floats_of(gated.topk_weights)) CHECK(w == Approx(0.125).epsilon(1e-6));
    }
}

TEST_CASE("winners anywhere are found in order", "[gate][C16]") {
    std::vector<float> scores(512, 0.0f);
    scores[255] = 4, scores[256] = 3, scores[338] = 2, scores[511] = 1;
    CHECK(topk(512, 10, scores) == Ids{255, 256, 338, 511, 0, 1, 2, 3, 4, 5});
    for (std::int64_t e = 0; e < 1024; e += 31) {
        std::vector<float> one(1024, -2.0f);
        one[static_cast<std::size_t>(e)] = -1.0f;
        CHECK(topk(1024, 1, one) == Ids{e});
    }
}

TEST_CASE("the bias chooses, the score weighs", "[gate][C17]") {
    for (std::int64_t experts : {8, 48, 64, 72, 96, 128, 160, 256, 384})
        for (int k : {1, 2, 3, 6, 7}) {
            std::vector<float> logits(static_cast<std::size_t>(experts), 0.0f), bias(logits.size(), 0.0f);
            for (int j = 0; j < k; ++j) bias[static_cast<std::size_t>(experts - 1 - j)] = 2.0f + static_cast<float>(j);
            logits[0] = 5.0f;  // the best score, which no bias lifts
            moe::GateOptions o;
            o.num_topk = k;
            const auto gated =
                moe::top2_sum_gate(host.stream(), floats({1, experts}, logits), floats({experts}, bias), o);
            Ids expected;
            for (int j = k - 1; j >= 0; --j) expected.push_back(experts - 1 - j);
            CHECK(ids_of(gated.topk_idx) == expected);
            for (float w : floats_of(gated.topk_weights)) CHECK(w == Approx(1.0 / k).epsilon(1e-6));
        }
}

TEST_CASE("groups of one expert, of two, and a single group", "[gate][C18]") {
    const std::vector<float> logits = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    moe::GateOptions o;
    o.num_topk = 3, o.num_groups = 8, o.num_topk_groups = 2;
    const Stream stream = host.stream();
    CHECK_THROWS_WITH(
        moe::top2_sum_gate(stream, floats({1, 8}, std::vector<float>(8)), floats({8}, std::vector<float>(8)), o),
        Contains("one expert each"));
    const auto pairs = moe::top2_sum_gate(stream, floats({1, 16}, logits), floats({16}, std::vector<float>(16)), o);
    CHECK(ids_of(pairs.topk_idx) == Ids{15, 14, 13});
    o.num_groups = o.num_topk_groups = 1;
    const auto one = moe::top2_sum_gate(stream, floats({1, 16}, logits), floats({16}, std::vector<float>(16)), o);
    CHECK(ids_of(one.topk_idx) == Ids{15, 14, 13});
    CHECK(ids_of(moe::topk_sum_and_topk_group_idx(stream, floats({1, 4, 1}, {1, 3, 3, 2}), {1, 3})) == Ids{1, 2, 3});
}

TEST_CASE("sums of groups: repeated best values count twice, NaN is passed over", "[gate]") {
    const std::vector<float> scores = {5, 5, 0, /**/ 9, 0.5f, 0, /**/ not_a_number, 6, 4.5f, /**/ -inf, -inf, 1e30f};
    CHECK(ids_of(moe::topk_sum_and_topk_group_idx(host.stream(), floats({1, 4, 3}, scores), {2, 4})) ==
          Ids{2, 0, 1, 3});
    CHECK(ids_of(moe::topk_sum_and_topk_group_idx(host.stream(), floats({1, 2, 2}, {inf, -inf, -3, -4}), {2, 2})) ==
          Ids{1, 0});
}

TEST_CASE("scores that vanish give weights of 0", "[gate]") {
    moe::GateOptions o;
    o.num_topk = 2;
    const auto gated =
        moe::top2_sum_gate(host.stream(), floats({1, 4}, {-200, -200, -200, -200}), floats({4}, {0, 0, 0, 0}), o);
    CHECK(ids_of(gated.topk_idx) == Ids{0, 1});
    CHECK(floats_of(gated.topk_weights) == std::vector<float>{0, 0});
}

TEST_CASE("a row that is not finite, or whose biases leave too few, gives distinct experts", "[gate]") {
    moe::GateOptions o;
    o.num_topk = 4, o.num_groups = 3, o.num_topk_groups = 2;
    const std::vector<float> logits = {not_a_number, not_a_number, 1, not_a_number, not_a_number, not_a_number, 0,
                                       not_a_number, inf};
    for (const char* label : {"sigmoid", "sqrtsoftplus", "softmax"}) {
        o.scoring = moe::scoring_of(label);
        Ids ids = ids_of(moe::top2_sum_gate(host.stream(), floats({1, 9}, logits),
                                            floats({9}, {0, -inf, 0, -inf, 0, 0, -inf, 0, 0}), o)
                             .topk_idx);
        std::sort(ids.begin(), ids.end());
        CHECK(std::unique(ids.begin(), ids.end()) == ids.end());
        CHECK(ids.front() >= 0);
        CHECK(ids.back() < 9);
    }
}

TEST_CASE("replicas are chosen in 64 bits", "[gate]") {
    constexpr std::int64_t tokens = 92040;  // 23333 · 92039 is past 2^31
    const Tensor logits = floats({tokens, 1}, std::vector<float>(tokens, 1.0f));
    const Tensor map = on_host<std::int32_t>(i32, {1, 7}, {0, 1, 2, 3, 4, 5, 6}),
                 count = on_host<std::int32_t>(i32, {1}, {7});
    moe::GateOptions o;
    o.num_topk = 1, o.ep_rank = 3;
    o.to_physical_map = map, o.logical_count = count;
    const Ids ids = ids_of(moe::top2_sum_gate(host.stream(), logits, floats({1}, {0}), o).topk_idx);
    for (std::int64_t t : {0, 1, 92036, 92037, 92039}) CHECK(ids[static_cast<std::size_t>(t)] == (3 + t * 23333) % 7);
}

TEST_CASE("no tokens: empty results, counts of 0", "[gate]") {
    const Stream stream = host.stream();
    CHECK(moe::topk_gate(stream, Tensor::empty(host, f32, {0, 8}), 3).extents() == Shape{0, 3});
    CHECK(moe::topk_sum_and_topk_group_idx(stream, Tensor::empty(host, f32, {0, 4, 2}), {2, 3}).extents() ==
          Shape{0, 3});
    CHECK(moe::normalize_weight(stream, Tensor::empty(host, f32, {0, 8})).denominator.extents() == Shape{0});
    const Tensor none = Tensor::empty(host, i64, {0, 6});
    CHECK(moe::mask_indices_by_tp(stream, none, {8}).extents() == Shape{0, 6});
    moe::inplace_unique_group_indices(stream, none, 8);
    const Tensor counts = moe::group_count(stream, none, 3);
    CHECK(std::vector<int>(counts.as<const int>(), counts.as<const int>() + 3) == std::vector<int>{0, 0, 0});
    CHECK(floats_of(moe::aux_fi(stream, none, 2, 1)) == std::vector<float>{0, 0});
}

TEST_CASE("1025 groups, and all ids in one", "[gate][C20]") {
    Ids ids(3000, 1024);
    const Tensor counts = moe::group_count(host.stream(), on_host(i64, {1000, 3}, ids), 1025);
    CHECK(counts.as<const std::int32_t>()[1024] == 3000);
    CHECK(counts.as<const std::int32_t>()[1023] == 0);
}

TEST_CASE("a count that is refused leaves its result as it was", "[gate]") {
    const Stream stream = host.stream();
    const Tensor memory = Tensor::zeros(stream, i64, {4, 2});
    TensorView ids = memory;
    ids.extents = {3, 2};
    ids.data = memory.as<char>() + 4;
    const Tensor counts = on_host(i32, {5}, std::vector<std::int32_t>(5, 7));
    const Tensor loads = floats({5}, std::vector<float>(5, 0.25f));
    CHECK_THROWS_WITH(moe::group_count(stream, ids, counts),
                      Contains("group_count: group_idx begins at") && Contains("a multiple of 8 bytes"));
    CHECK_THROWS_WITH(moe::aux_fi(stream, ids, loads, 2), Contains("aux_fi: topk_idx begins at"));
    for (int i = 0; i < 5; ++i) CHECK(counts.as<const std::int32_t>()[i] == 7);
    CHECK(floats_of(loads) == std::vector<float>(5, 0.25f));
}

TEST_CASE("counts and loads of few and of many ids and groups: counted in shared memory, and in the result", "[gate]") {
    struct Size {
        std::int64_t ids, groups, shared;  // counters of a block; 0: all count in the result
    };
    for (const Size& s : {Size{1, 1, 32}, Size{4096, 64, 64}, Size{4097, 65, 128}, Size{64 * 4096 * 2 + 5, 300, 512},
                          Size{64 * 4096 * 8 + 1, 40, 64}, Size{5000, 8192, 8192}, Size{5000, 8193, 0}}) {
        INFO(s.ids << " ids, " << s.groups << " groups");
        CHECK(moe::count_plan(s.groups, s.ids).shared_groups == s.shared);
        Ids ids(static_cast<std::size_t>(s.ids));
        std::vector<std::int32_t> expected(static_cast<std::size_t>(s.groups));
        for (std::size_t i = 0; i < ids.size(); ++i) {
            ids[i] = static_cast<std::int64_t>(i * 2654435761u % static_cast<std::uint64_t>(s.groups + 3)) - 1;
            if (ids[i] >= 0 && ids[i] < s.groups) ++expected[static_cast<std::size_t>(ids[i])];
        }
        const Tensor in = on_host(i64, {s.ids, 1}, ids);
        const Tensor counts = moe::group_count(host.stream(), in, s.groups);
        CHECK(std::equal(expected.begin(), expected.end(), counts.as<const std::int32_t>()));
        const Tensor loads = moe::aux_fi(host.stream(), in, s.groups, 1);
        bool right = true;
        for (std::size_t g = 0; g < expected.size(); ++g)
            right = right && loads.as<const float>()[g] ==
                                 static_cast<float>(expected[g] * s.groups) / static_cast<float>(s.ids);
        CHECK(right);
    }
}

TEST_CASE("few ids are shared out over more blocks than many", "[gate]") {
    CHECK(moe::count_plan(32, 0).ids_at_once == 1024);
    CHECK(moe::count_plan(32, 32768).ids_at_once == 1024);
    CHECK(moe::count_plan(32, 32769).ids_at_once == 4096);
}

TEST_CASE("what the gates cannot do is refused, with the argument's name", "[gate]") {
    const Stream stream = host.stream();
    const Tensor scores = Tensor::empty(host, f32, {2, 8});
    CHECK_THROWS_WITH(moe::topk_gate(stream, scores, 9), Contains("num_topk is 9") && Contains("from 1 to 8"));
    CHECK_THROWS_WITH(moe::topk_gate(stream, scores, 0), Contains("num_topk is 0"));
    CHECK_THROWS_WITH(moe::topk_gate(stream, Tensor::empty(host, f32, {2, 1025}), 2), Contains("1025 experts"));
    CHECK_THROWS_WITH(moe::topk_gate(stream, Tensor::empty(host, f32, {2, 0}), 1),
                      Contains("scores have 0 experts; there is at least one"));
    CHECK_THROWS_WITH(moe::topk_gate(stream, Tensor::empty(host, i32, {2, 8}), 2), Contains("scores is i32"));
    CHECK_THROWS_WITH(moe::topk_gate(stream, scores.view().slice(1, 0, 4), 2), Contains("strides [8, 1]"));
    CHECK_THROWS_WITH(moe::topk_gate(stream, Tensor::empty(host, f32, {8}), 2), Contains("rank 1"));
    const Tensor groups = Tensor::empty(host, f32, {2, 33, 2});
    CHECK_THROWS_WITH(moe::topk_sum_and_topk_group_idx(stream, groups, {2, 2}), Contains("33 groups"));
    CHECK_THROWS_WITH(moe::topk_sum_and_topk_group_idx(stream, Tensor::empty(host, f32, {2, 4, 1}), {2, 2}),
                      Contains("num_topk_sum is 2"));
    CHECK_THROWS_WITH(moe::topk_sum_and_topk_group_idx(stream, Tensor::empty(host, f32, {2, 4, 0}), {2, 2}),
                      Contains("scores have groups of 0 experts; from 1"));
    CHECK_THROWS_WITH(moe::topk_sum_and_topk_group_idx(stream, Tensor::empty(host, f32, {2, 0, 4}), {2, 2}),
                      Contains("scores have 0 groups; from 1"));
    CHECK_THROWS_WITH(moe::scoring_of("identity"), Contains("identity"));
    CHECK_THROWS_WITH(moe::mask_indices_by_tp(stream, Tensor::empty(host, i64, {1, 1}), {8, 9}),
                      Contains("8 experts on 9"));
    CHECK_THROWS_WITH(moe::mask_indices_by_tp(stream, Tensor::empty(host, i64, {1, 1}), {8, 2, 2, 2}),
                      Contains("tp_rank is 2"));
    CHECK_THROWS_WITH(moe::inplace_unique_group_indices(stream, Tensor::empty(host, i64, {1, 2}), 129),
                      Contains("num_groups is 129"));
    CHECK_THROWS_WITH(moe::aux_fi(stream, Tensor::empty(host, i64, {1, 2}), 8, 0), Contains("num_aux_topk is 0"));
    for (std::int64_t huge : {std::int64_t{1} << 31, std::int64_t{1} << 62})
        CHECK_THROWS_WITH(moe::aux_fi(stream, Tensor::empty(host, i64, {2, 2}), 8, huge),
                          Contains("num_aux_topk is " + std::to_string(huge) + "; from 1 to 2^31 - 1"));
}

TEST_CASE("what top2_sum_gate cannot do is refused", "[gate]") {
    const Tensor logits = Tensor::empty(host, f32, {2, 12}), bias = Tensor::empty(host, f32, {12});
    const Tensor map = Tensor::empty(host, i32, {13, 2}), count = Tensor::empty(host, i32, {13});
    const auto refused = [&](auto change) {
        moe::GateOptions o;
        o.num_topk = 4;
        change(o);
        try {
            moe::top2_sum_gate(host.stream(), logits, bias, o);
        } catch (const UsageError& e) {
            return std::string(e.what());
        }
        return std::string("not refused");
    };
    CHECK_THAT(refused([](auto& o) { o.num_topk = 13; }), Contains("num_topk is 13"));
    CHECK_THROWS_WITH(
        moe::top2_sum_gate(host.stream(), Tensor::empty(host, f32, {2, 0}), Tensor::empty(host, f32, {0}), {}),
        Contains("logits have 0 experts; there is at least one"));
    CHECK_THAT(refused([](auto& o) { o.num_groups = -2, o.num_topk_groups = -1; }),
               Contains("num_groups is -2; it is 0 for none, or at least 1"));
    CHECK_THAT(refused([](auto& o) { o.num_tp_ranks = 0; }), Contains("num_tp_ranks is 0; it is at least 1"));
    const Tensor no_column = Tensor::empty(host, i32, {12, 0}), counts = Tensor::empty(host, i32, {12});
    CHECK_THAT(refused([&](auto& o) { o.to_physical_map = no_column, o.logical_count = counts; }),
               Contains("to_physical_map has extents [12, 0]") && Contains("and a column at least"));
    CHECK_THAT(refused([](auto& o) { o.num_groups = 4; }), Contains("both are 0 or neither"));
    CHECK_THAT(refused([](auto& o) { o.num_groups = 5, o.num_topk_groups = 5; }), Contains("do not divide"));
    CHECK_THAT(refused([](auto& o) { o.num_groups = 4, o.num_topk_groups = 1; }), Contains("have only 3"));
    CHECK_THAT(refused([](auto& o) { o.num_groups = 4, o.num_topk_groups = 5; }), Contains("num_topk_groups is 5"));
    CHECK_THAT(refused([](auto& o) { o.use_shared_as_routed = true; }), Contains("num_shared_experts is 0"));
    CHECK_THAT(refused([](auto& o) { o.use_shared_as_routed = true, o.num_shared_experts = 1; }),
               Contains("to_physical_map with at least 2 columns"));
    CHECK_THAT(refused([&](auto& o) { o.to_physical_map = map; }), Contains("together or not at all"));
    CHECK_THAT(refused([&](auto& o) { o.to_physical_map = map, o.logical_count = count; }), Contains("12 experts"));
    CHECK_THAT(refused([](auto& o) { o.num_ep_ranks = 13; }), Contains("num_ep_ranks is 13"));
    CHECK_THAT(refused([](auto& o) { o.tp_rank = 1; }), Contains("tp_rank is 1 of 1"));
    CHECK_THAT(refused([](auto& o) { o.ep_rank = -1; }), Contains("ep_rank is -1"));
    const Tensor mask = Tensor::empty(host, boolean, {3}), fixed = Tensor::empty(host, boolean, {2});
    CHECK_THAT(refused([&](auto& o) { o.mask = mask; }), Contains("it has 2 elements"));
    CHECK_THAT(refused([&](auto& o) { o.fix_routing_mask = fixed; }), Contains("without unmapped_topk_idx"));
    const Tensor unmapped = Tensor::empty(host, i64, {2, 5});
    CHECK_THAT(refused([&](auto& o) { o.unmapped_topk_idx = unmapped; }), Contains("must be i64 [2, 4]"));
}
