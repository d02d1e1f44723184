#include <catch2/catch.hpp>

#include "kernels/mhc/norm_plan.hpp"
#include "tests/support/kernels/mhc_check.hpp"
#include "tests/support/shapes.hpp"

// The kernels that make the logits, on random shapes against the float64 reference; pre_big_fuse against the chain of
// single kernels, too.

using namespace tessera;
using namespace tessera::test;

namespace {

void check_all(std::string (*check)(const Device&, const MhcNormCase&)) {
    const std::vector<MhcNormCase> cases = mhc_norm_cases(140);
    for (const MhcNormCase& c : cases) CHECK(check(Device::host(), c) == "");
    for (const MhcNormCase& c : thinned(cases, 14)) CHECK(check(Device::host(Target::b200()), c) == "");
    for (const int multiprocessors : {1, 78, 114, 131, 148}) {
        Target target = Target::h200();
        target.multiprocessors = multiprocessors;
        for (const MhcNormCase& c : thinned(cases, 5)) CHECK(check(Device::host(target), c) == "");
    }
}

}  // namespace

TEST_CASE("norm_fn agrees with the reference on 140 shapes", "[mhc][C25]") { check_all(check_mhc_norm_fn); }

TEST_CASE("the product from halves of fn agrees with the reference on all shapes with tokens", "[mhc]") {
    std::vector<MhcNormCase> cases = mhc_norm_cases(140);
    std::erase_if(cases, [](const MhcNormCase& c) { return c.common.tokens == 0; });
    CHECK(cases.size() > 100);
    for (const MhcNormCase& c : cases) CHECK(check_mhc_norm_halves(Device::host(), c) == "");
    for (const MhcNormCase& c : thinned(cases, 10)) CHECK(check_mhc_norm_halves(Device::host(Target::b200()), c) == "");
}

TEST_CASE("many tokens, one past the last whole block", "[mhc]") {
    const MhcNormCase c{{8193, 4, 16, 10, 1e-6f, 1.0, 0, 0, false, false, 73}, 24, 0};
    CHECK(check_mhc_norm_fn(Device::host(), c) == "");
    CHECK(check_mhc_pre_big_fuse(Device::host(), c) == "");
}

TEST_CASE("merge_norm_weight agrees with the reference on 140 shapes", "[mhc]") {
    check_all(check_mhc_merge_norm_weight);
}

TEST_CASE("pre_big_fuse agrees with the reference, and with the chain to the bit, on 140 shapes", "[mhc][C25]") {
    check_all(check_mhc_pre_big_fuse);
}

TEST_CASE("norm_fn and pre_big_fuse agree with the reference at H = 7168, and at two streams of 5120", "[mhc]") {
    for (const std::int64_t tokens : {1, 13}) {
        const MhcCase wide{tokens, 4, 7168, 10, 1e-6f, 1e-4, 0, 0, false, true, 71};
        const MhcCase narrow{tokens, 2, 5120, 1, 1e-2f, 1.0, 1, 0, false, false, 72};
        for (const MhcNormCase& c : {MhcNormCase{wide, 24, 0}, MhcNormCase{wide, 24, 16}, MhcNormCase{narrow, 8, 0}}) {
            CHECK(check_mhc_norm_fn(Device::host(), c) == "");
            CHECK(check_mhc_pre_big_fuse(Device::host(), c) == "");
        }
    }
}
