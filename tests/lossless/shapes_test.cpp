#include "tests/support/shapes.hpp"

#include <catch2/catch.hpp>

#include "tests/support/lossless_cases.hpp"

// Random shapes, blocks and layouts on the host executor against the reference; a third of them with scales that must
// be reported.

using namespace tessera;
using namespace tessera::test;

TEST_CASE("per_block_cast_lossless agrees with the reference on 500 shapes", "[quant]") {
    const std::vector<LosslessCase> cases = lossless_cases(500);
    for (const LosslessCase& c : cases) CHECK(check_lossless(Device::host(), c) == "");
    const Device b200 = Device::host(Target::b200());
    for (const LosslessCase& c : thinned(cases, 40)) CHECK(check_lossless(b200, c) == "");
}
