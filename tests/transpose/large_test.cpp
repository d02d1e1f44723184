#include <catch2/catch.hpp>

#include "tests/support/kernels/large_transpose.hpp"

// More tiles than a 16-bit grid axis counts.

using namespace tessera;

TEST_CASE("65,536 tiles of rows", "[transpose][C22]") {
    CHECK(test::transposes_large(Device::host(), {1, 4194304, 64}));
}

TEST_CASE("65,537 batches", "[transpose][C22]") { CHECK(test::transposes_large(Device::host(), {65537, 64, 64})); }
