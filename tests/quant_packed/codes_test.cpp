#include <catch2/catch.hpp>

#include "tests/support/kernels/exhaustive.hpp"

// Whole domains of codes, midpoints, BF16 numbers and exponents through the kernels on the host executor.

using namespace tessera;
using namespace tessera::test;
using reference::Format;

namespace {

constexpr Format formats[] = {Format::e4m3, Format::e2m1, Format::e5m6};

}  // namespace

TEST_CASE("every code is cast back to its value", "[quant][C6][C41]") {
    for (const Device& device : {Device::host(), Device::host(Target::b200())})
        for (const Format format : formats) CHECK(check_every_code(device, format) == "");
}

TEST_CASE("every E2M1 code under the edges of packed scales", "[quant][C7]") {
    CHECK(check_scale_bytes(Device::host()) == "");
}

TEST_CASE("midpoints go to the even code, their neighbours to the nearer", "[quant][C41]") {
    for (const Device& device : {Device::host(), Device::host(Target::b200())})
        for (const Format format : formats) CHECK(check_midpoints(device, format) == "");
}

TEST_CASE("E5M6 rounds to nearest even below 2^-14 if asked to", "[quant][C12]") {
    CHECK(check_midpoints(Device::host(), Format::e5m6, true) == "");
}

TEST_CASE("every BF16 number is cast as the reference does", "[quant][C41]") {
    for (const Format format : formats) CHECK(check_every_bf16(Device::host(), format) == "");
}

TEST_CASE("scales of every exponent", "[quant][C2]") {
    for (const Format format : formats) CHECK(check_every_exponent(Device::host(), format) == "");
}
