#include <algorithm>
#include <catch2/catch.hpp>

#include "dsl/base/error.hpp"
#include "tests/support/kernels/mapping_check.hpp"

using namespace tessera;
using namespace tessera::test;
using Catch::Matchers::Contains;

TEST_CASE("get_fused_mapping is a stable counting sort on 300 shapes", "[gate]") {
    const std::vector<MappingCase> cases = mapping_cases(300);
    for (std::size_t i = 0; i < cases.size(); ++i) {
        CHECK(check_mapping(Device::host(), cases[i]) == "");
        if (i % 20 == 0) CHECK(check_mapping(Device::host(Target::b200()), cases[i]) == "");
    }
}

TEST_CASE("empty experts, full ranges and one more, 1025 and 4096 experts, one expert for all", "[gate][C19][C20]") {
    MappingCase c{40, 4, 6, 8, -1, {}};
    for (std::int64_t i = 0; i < 160; ++i) c.ids.push_back(i < 8 ? 0 : i < 17 ? 2 : i % 3 == 0 ? 5 : -1);
    CHECK(check_mapping(Device::host(), c) == "");
    for (std::int64_t experts : {1025, 4096}) {
        MappingCase many{700, 3, experts, 4, -1, {}};
        for (std::int64_t i = 0; i < 2100; ++i) many.ids.push_back(i * 7919 % experts);
        CHECK(check_mapping(Device::host(), many) == "");
        std::fill(many.ids.begin(), many.ids.end(), experts - 1);
        CHECK(check_mapping(Device::host(), many) == "");
    }
}

TEST_CASE("mappings of more slots, or experts, than a block takes at once", "[gate]") {
    for (const MappingCase& c : large_mapping_cases()) CHECK(check_mapping(Device::host(), c) == "");
}

TEST_CASE("one launch of few large blocks up to 458,752 slots and 256 experts, or 163,840 and 1,024", "[gate]") {
    const auto plan = [](std::int64_t slots, std::int64_t experts) { return moe::mapping_plan(slots, experts, 132); };
    CHECK(plan(0, 1).blocks == 1);
    for (const std::int64_t slots : {1, 1024, 1025, 32768, 32769, 163840, 175896, 458752})
        for (const std::int64_t experts : {1, 72, 256, 1024}) {
            const moe::MappingPlan p = plan(slots, experts);
            if (slots > 163840 && experts > 256) {
                CHECK(p.wide == 0);
                continue;
            }
            CHECK(p.wide >= experts);
            CHECK(p.blocks <= 128);
            CHECK(p.blocks * p.wide <= 32768);
            CHECK((p.most_blocks >= p.blocks && p.most_blocks / 2 < p.blocks));
            CHECK(p.blocks * p.threads * p.steps >= slots);
            CHECK((p.blocks - 1) * p.threads * p.steps < slots);
        }
    CHECK(plan(458753, 8).wide == 0);
    CHECK(moe::mapping_plan(175896, 8, 16).wide == 0);
    CHECK(moe::mapping_plan(16 * 512 * 7, 8, 16).blocks == 16);
    CHECK(plan(8, 1025).wide == 0);
}

TEST_CASE("more tokens than a chunk holds", "[gate][A86]") {
    for (std::int64_t tokens : {1, 13001}) {
        MappingCase c{tokens, 8, 32, 128, -1, {}};
        for (std::int64_t i = 0; i < tokens * 8; ++i) c.ids.push_back(i * i % 41 < 32 ? i * i % 41 : -1);
        CHECK(check_mapping(Device::host(), c) == "");
    }
}

TEST_CASE("a given number of rows: larger, exact, too small", "[gate]") {
    MappingCase c{10, 2, 3, 4, 0, {}};
    for (std::int64_t i = 0; i < 20; ++i) c.ids.push_back(i % 3);
    for (std::int64_t rows : {40, 24, 23, 9, 1}) {
        c.rows = rows;
        CHECK(check_mapping(Device::host(), c) == "");
    }
}

TEST_CASE("what get_fused_mapping cannot do is refused", "[gate]") {
    const Stream stream = Device::host().stream();
    const Tensor ids = Tensor::zeros(stream, i64, {2, 2});
    CHECK_THROWS_WITH(moe::get_fused_mapping(stream, ids, {4097}), Contains("num_experts is 4097"));
    CHECK_THROWS_WITH(moe::get_fused_mapping(stream, ids, {4, 0}), Contains("alignment is 0"));
    CHECK_THROWS_WITH(moe::get_fused_mapping(stream, ids, {4, 1, -1}), Contains("num_expanded_tokens is -1"));
    CHECK_THROWS_WITH(moe::get_fused_mapping(stream, Tensor::zeros(stream, i32, {2, 2}), {4}),
                      Contains("topk_idx is i32"));
    // Two experts at most have rows, however many there are.
    CHECK_THROWS_WITH(moe::get_fused_mapping(stream, ids, {4096, INT32_MAX}),
                      Contains("4 slots of 4096 experts with alignment 2147483647 may need up to 8589934588 rows") &&
                          Contains("take a smaller alignment"));
    CHECK_THROWS_WITH(moe::get_fused_mapping(stream, ids, {4, 1, std::int64_t{1} << 40}),
                      Contains("num_expanded_tokens is 1099511627776"));
    const std::int64_t two[] = {7, 4000};
    const std::int64_t alignment = 1 << 29;
    const moe::FusedMapping wide = moe::get_fused_mapping(stream, Tensor::from_host(stream, i64, {1, 2}, two),
                                                          {4096, alignment, /* num_expanded_tokens */ 3});
    CHECK(wide.expert_end.as<std::int32_t>()[7] == alignment);
    CHECK(wide.expert_end.as<std::int32_t>()[4000] == 2 * alignment);
    CHECK(wide.pos_to_token.as<std::int32_t>()[0] == 0);
    CHECK(wide.pos_to_token.as<std::int32_t>()[1] == -1);
    const moe::FusedMapping none = moe::get_fused_mapping(stream, Tensor::empty(stream, i64, {0, 2}), {2, 4, 0, true});
    CHECK(none.pos_to_expert.extents() == Shape{0});
    CHECK(none.num_tokens_per_expert_list.empty());
}
