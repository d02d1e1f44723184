#include "tests/support/shapes.hpp"

#include <catch2/catch.hpp>

#include "tests/support/kernels/engram_check.hpp"

// Random shapes on the host executor against the reference.

using namespace tessera;
using namespace tessera::test;

TEST_CASE("the Engram gate, forward and backward, agrees with the reference on 320 shapes", "[engram]") {
    for (const EngramGateCase& c : engram_gate_cases(320)) CHECK(check_engram_gate(Device::host(), c) == "");
}

TEST_CASE("the Engram gate of wide rows agrees with the reference", "[engram]") {
    for (const EngramGateCase& c : engram_wide_cases()) CHECK(check_engram_gate(Device::host(), c) == "");
}

TEST_CASE("the Engram hash agrees with the reference on 320 shapes", "[engram]") {
    for (const EngramHashCase& c : engram_hash_cases(320)) CHECK(check_engram_hash(Device::host(), c) == "");
}

TEST_CASE("fused_weight and grad_w_reduce agree with the reference on 320 shapes", "[engram]") {
    for (const EngramReduceCase& c : engram_reduce_cases(320)) {
        CHECK(check_engram_reduce(Device::host(), c) == "");
        CHECK(check_engram_weight(Device::host(), c) == "");
    }
}

TEST_CASE("Engram on the host as another GPU", "[engram]") {
    const Device b200 = Device::host(Target::b200());
    for (const EngramGateCase& c : thinned(engram_gate_cases(320), 40)) CHECK(check_engram_gate(b200, c) == "");
    for (const EngramHashCase& c : thinned(engram_hash_cases(320), 20)) CHECK(check_engram_hash(b200, c) == "");
    for (const EngramReduceCase& c : thinned(engram_reduce_cases(320), 20)) CHECK(check_engram_reduce(b200, c) == "");
}
