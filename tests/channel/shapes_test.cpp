#include "tests/support/shapes.hpp"

#include <catch2/catch.hpp>

#include "tests/support/kernels/channel_check.hpp"

// Random shapes on the host executor against the reference.

using namespace tessera;
using namespace tessera::test;

TEST_CASE("per_channel_cast agrees with the reference on 300 shapes", "[channel]") {
    for (const ChannelCase& c : channel_cases(300)) CHECK(check_per_channel_cast(Device::host(), c) == "");
}

TEST_CASE("per_channel_cast_and_transpose agrees with the reference on 300 shapes", "[channel]") {
    for (const ChannelCase& c : channel_cases(300))
        CHECK(check_per_channel_cast_and_transpose(Device::host(), c) == "");
}

TEST_CASE("per_channel_cast_fused agrees with the reference on 300 shapes of gathered rows", "[channel]") {
    for (const ChannelCase& c : gathered_cases(300)) CHECK(check_per_channel_cast_fused(Device::host(), c) == "");
}

TEST_CASE("per_channel_cast_fused agrees with the reference on 300 shapes of quantized input", "[channel]") {
    for (const ChannelCase& c : pair_cases(300)) CHECK(check_per_channel_cast_fused(Device::host(), c) == "");
}

TEST_CASE("channel casts on the host as another GPU give the same bits", "[channel]") {
    const Device b200 = Device::host(Target::b200());
    for (const ChannelCase& c : thinned(channel_cases(300), 40)) {
        CHECK(check_per_channel_cast(b200, c) == "");
        CHECK(check_per_channel_cast_and_transpose(b200, c) == "");
    }
    for (const ChannelCase& c : thinned(gathered_cases(300), 40)) CHECK(check_per_channel_cast_fused(b200, c) == "");
    for (const ChannelCase& c : thinned(pair_cases(300), 40)) CHECK(check_per_channel_cast_fused(b200, c) == "");
}
