#include "tests/support/shapes.hpp"

#include <catch2/catch.hpp>

#include "tests/support/kernels/swiglu_check.hpp"

// Random shapes on the host executor against the reference.

using namespace tessera;
using namespace tessera::test;

TEST_CASE("swiglu forward agrees with the reference on 400 shapes", "[swiglu]") {
    for (const SwigluForwardCase& c : swiglu_forward_cases(400)) CHECK(check_swiglu_forward(Device::host(), c) == "");
}

TEST_CASE("swiglu backward agrees with the reference on 400 shapes", "[swiglu]") {
    for (const SwigluBackwardCase& c : swiglu_backward_cases(400))
        CHECK(check_swiglu_backward(Device::host(), c) == "");
}

TEST_CASE("swiglu on the host as another GPU gives the same bits", "[swiglu]") {
    const Device b200 = Device::host(Target::b200());
    for (const SwigluForwardCase& c : thinned(swiglu_forward_cases(400), 40))
        CHECK(check_swiglu_forward(b200, c) == "");
    for (const SwigluBackwardCase& c : thinned(swiglu_backward_cases(400), 40))
        CHECK(check_swiglu_backward(b200, c) == "");
}
