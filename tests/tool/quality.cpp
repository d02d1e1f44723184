// The error measures, against numbers worked out by hand.
#include "tools/tessera/quality.hpp"

#include <catch2/catch.hpp>
#include <cmath>
#include <vector>

namespace tessera::tool {
namespace {

// E4M3: 0x30 is 0.5, 0x38 is 1, 0xb0 is −0.5.
TEST_CASE("errors are relative to the largest magnitude of the block") {
    const std::vector<float> values = {1, 2, 0, 4, -1, 0};
    const std::vector<std::uint8_t> codes = {0x30, 0x38, 0x00, 0x38, 0xb0, 0x80};
    const std::vector<float> scales = {2, 7};
    Quality quality;
    quality.add({2, 3, 2, 2}, values, codes, scales);
    CHECK(quality.values() == 6);
    CHECK(quality.max_error() == 0.5);               // 4 became 2
    CHECK(quality.mean_error() == Approx(0.5 / 6));  // the only error of six values
    CHECK(quality.signal_to_noise() == Approx(10 * std::log10(22.0 / 4.0)));

    const std::vector<float> one = {8};
    quality.add({1, 1, 128, 128}, one, std::vector<std::uint8_t>{0x38}, std::vector<float>{7});
    CHECK(quality.max_error() == 0.5);
    CHECK(quality.mean_error() == Approx((0.5 + 0.125) / 7));
    CHECK(quality.signal_to_noise() == Approx(10 * std::log10((22.0 + 64.0) / (4.0 + 1.0))));
}

TEST_CASE("nothing lost is an infinite ratio, and no value no error") {
    Quality quality;
    CHECK(quality.mean_error() == 0);
    quality.add({1, 1, 32, 32}, std::vector<float>{3}, std::vector<std::uint8_t>{0x38}, std::vector<float>{3});
    CHECK(quality.max_error() == 0);
    CHECK(std::isinf(quality.signal_to_noise()));
}

TEST_CASE("a grid counts partial blocks") {
    const BlockGrid grid{129, 128, 128, 128};
    CHECK(grid.scale_rows() == 2);
    CHECK(grid.scale_columns() == 1);
}

}  // namespace
}  // namespace tessera::tool
