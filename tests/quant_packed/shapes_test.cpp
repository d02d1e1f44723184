#include <catch2/catch.hpp>

#include "tests/support/kernels/checks.hpp"

// Random shapes on the host executor against the reference.

using namespace tessera;
using namespace tessera::test;

namespace {

template <class Case>
void check_all(const std::vector<Case>& cases, std::string (*check)(const Device&, const Case&)) {
    for (const Case& c : cases) CHECK(check(Device::host(), c) == "");
    const Device b200 = Device::host(Target::b200());
    for (const Case& c : thinned(cases, 40)) CHECK(check(b200, c) == "");
}

}  // namespace

TEST_CASE("per_token_cast to E2M1 and E5M6 agrees with the reference on 500 shapes", "[quant][C40]") {
    check_all(packed_token_cast_cases(500), check_per_token_cast);
}

TEST_CASE("per_block_cast to E2M1 agrees with the reference on 350 shapes", "[quant][C40]") {
    check_all(packed_block_cast_cases(350), check_per_block_cast);
}

TEST_CASE("re-quantization agrees with the reference on 400 shapes", "[quant]") {
    check_all(requantize_cases(400), check_requantize);
}

TEST_CASE("cast_back agrees with the reference on 400 shapes", "[quant][C40]") {
    check_all(cast_back_cases(400), check_cast_back);
}

TEST_CASE("scales alone agree with the reference on 300 shapes", "[quant]") {
    std::vector<CastCase> cases = packed_token_cast_cases(300);
    for (const CastCase& c : token_cast_cases(60)) cases.push_back(c);
    check_all(cases, check_sf_only);
}

TEST_CASE("scales of blocks alone agree with the reference on 300 shapes", "[quant]") {
    std::vector<CastCase> cases = packed_block_cast_cases(150);
    for (const CastCase& c : block_cast_cases(150)) cases.push_back(c);
    check_all(cases, check_sf_only);
}

TEST_CASE("codes for given scales of blocks agree with the reference on 300 shapes", "[quant]") {
    check_all(precomputed_block_cases(300), check_precomputed_sf);
}

TEST_CASE("codes for given scales agree with the reference on 300 shapes", "[quant]") {
    check_all(precomputed_cases(300), check_precomputed_sf);
}
