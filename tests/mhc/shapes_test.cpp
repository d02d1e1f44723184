#include "tests/support/shapes.hpp"

#include <catch2/catch.hpp>

#include "tests/support/kernels/mhc_check.hpp"

// Random shapes on the host executor against the float64 reference.

using namespace tessera;
using namespace tessera::test;

namespace {

void check_all(std::string (*check)(const Device&, const MhcCase&)) {
    const std::vector<MhcCase> cases = mhc_cases(320);
    for (const MhcCase& c : cases) CHECK(check(Device::host(), c) == "");
    for (const MhcCase& c : thinned(cases, 30)) CHECK(check(Device::host(Target::b200()), c) == "");
}

}  // namespace

TEST_CASE("sinkhorn agrees with the reference on 320 shapes", "[mhc][C25]") { check_all(check_mhc_sinkhorn); }

TEST_CASE("post agrees with the reference on 320 shapes", "[mhc][C25]") { check_all(check_mhc_post); }

TEST_CASE("apply_mix agrees with the reference on 320 shapes", "[mhc][C25]") { check_all(check_mhc_apply_mix); }

TEST_CASE("expand agrees with the reference on 320 shapes", "[mhc][C25]") { check_all(check_mhc_expand); }

TEST_CASE("split_mixes agrees with the reference on 320 shapes", "[mhc][C25]") { check_all(check_mhc_split_mixes); }

TEST_CASE("head_compute_mix agrees with the reference on 320 shapes", "[mhc][C25]") { check_all(check_mhc_head); }
