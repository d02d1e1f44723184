#include <catch2/catch.hpp>
#include <cstdio>

#include "tests/gpu/check_all.hpp"
#include "tests/support/kernels/checks.hpp"
#include "tests/support/kernels/gate_check.hpp"
#include "tests/support/kernels/large_transpose.hpp"
#include "tests/support/kernels/mapping_check.hpp"
#include "tests/support/kernels/mhc_check.hpp"
#include "tests/support/programs/device_launch.hpp"

// On the GPU: the random shapes and programs that the host executor is tested with.

using namespace tessera;
using namespace tessera::test;

TEST_CASE("random shapes of the casts", "[gpu][quant]") {
    check_all("per_token_cast", thinned(token_cast_cases(600), 100), check_per_token_cast);
    check_all("per_block_cast", thinned(block_cast_cases(600), 100), check_per_block_cast);
}

TEST_CASE("random shapes of the transpose", "[gpu][transpose]") {
    check_all("batched_transpose", thinned(transpose_cases(600), 100), check_batched_transpose);
}

TEST_CASE("random shapes of the gates, of the kernels of ids and of the mapping", "[gpu][gate]") {
    check_all("topk_gate", thinned(topk_cases(400, false), 150), check_topk);
    check_all("topk_sum_and_topk_group_idx", thinned(topk_cases(400, true), 150), check_topk);
    check_all("top2_sum_gate", thinned(gate_cases(400), 150), check_top2_sum_gate);
    check_all("mask_indices_by_tp", thinned(ids_cases(400), 60), check_mask_by_tp);
    check_all("inplace_unique_group_indices", thinned(ids_cases(400), 60), check_unique);
    check_all("group_count and aux_fi", thinned(ids_cases(400), 60), check_counts);
    check_all("normalize_weight", thinned(ids_cases(400), 60), check_normalize);
    check_all("get_fused_mapping", thinned(mapping_cases(300), 100), check_mapping);
    check_all("get_fused_mapping, large", large_mapping_cases(), check_mapping);
}

TEST_CASE("transposes of more tiles than a 16-bit grid axis counts", "[gpu][transpose][C22]") {
    CHECK(transposes_large(Device::cuda(0), {1, 4194304, 64}));
    CHECK(transposes_large(Device::cuda(0), {65537, 64, 64}));
}

TEST_CASE("random shapes of the hyper-connection kernels", "[gpu][mhc][C25]") {
    check_all("mhc sinkhorn", thinned(mhc_cases(320), 100), check_mhc_sinkhorn);
    check_all("mhc post", thinned(mhc_cases(320), 100), check_mhc_post);
    check_all("mhc apply_mix", thinned(mhc_cases(320), 100), check_mhc_apply_mix);
    check_all("mhc expand", thinned(mhc_cases(320), 100), check_mhc_expand);
    check_all("mhc split_mixes", thinned(mhc_cases(320), 100), check_mhc_split_mixes);
    check_all("mhc head_compute_mix", thinned(mhc_cases(320), 100), check_mhc_head);
    check_all("mhc norm_fn", mhc_norm_cases(140), check_mhc_norm_fn);
    std::vector<MhcNormCase> some = mhc_norm_cases(140);
    std::erase_if(some, [](const MhcNormCase& c) { return c.common.tokens == 0; });
    some.push_back({{8193, 4, 16, 10, 1e-6f, 1.0, 0, 0, false, false, 73}, 24, 0});
    check_all("mhc norm_fn from halves", some, check_mhc_norm_halves);
    check_all("mhc norm_fn of many tokens", {some.back()}, check_mhc_norm_fn);
    check_all("mhc merge_norm_weight", mhc_norm_cases(140), check_mhc_merge_norm_weight);
    check_all("mhc pre_big_fuse", mhc_norm_cases(140), check_mhc_pre_big_fuse);
}

TEST_CASE("random programs give the evaluator's bits", "[gpu][random]") {
    const Device device = Device::cuda(0);
    constexpr std::size_t count = 200;
    const auto said = in_parallel(count, [&](std::size_t seed) { return check_on_device(device, seed); });
    std::size_t right = 0;
    for (std::size_t seed = 0; seed < count; ++seed) {
        INFO("seed " << seed);
        CHECK(said[seed] == "");
        if (said[seed].empty()) ++right;
    }
    std::printf("random programs: %zu of %zu right on %s\n", right, count, device.name().c_str());
}
