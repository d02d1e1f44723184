#include "tests/support/shapes.hpp"

#include <catch2/catch.hpp>

#include "tests/support/kernels/moe_check.hpp"

// Random shapes on the host executor against the reference.

using namespace tessera;
using namespace tessera::test;

TEST_CASE("expand_to_fused agrees with the reference on 400 shapes", "[moe]") {
    for (const ExpandCase& c : expand_cases(400)) CHECK(check_expand_to_fused(Device::host(), c) == "");
}

TEST_CASE("reduce_fused agrees with the reference on 400 shapes", "[moe]") {
    for (const ReduceCase& c : reduce_cases(400)) CHECK(check_reduce_fused(Device::host(), c) == "");
}

TEST_CASE("moving rows on the host as another GPU gives the same bits", "[moe]") {
    const Device b200 = Device::host(Target::b200());
    for (const ExpandCase& c : thinned(expand_cases(400), 50)) CHECK(check_expand_to_fused(b200, c) == "");
    for (const ReduceCase& c : thinned(reduce_cases(400), 50)) CHECK(check_reduce_fused(b200, c) == "");
}
