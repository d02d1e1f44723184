#pragma once

#include <string>

#include "runtime/device.hpp"
#include "tests/support/channel_shapes.hpp"

namespace tessera::test {

// As in checks.hpp: "" if all is well, else what differs.

std::string check_per_channel_cast(const Device& device, const ChannelCase& c);
std::string check_per_channel_cast_and_transpose(const Device& device, const ChannelCase& c);
std::string check_per_channel_cast_fused(const Device& device, const ChannelCase& c);

}  // namespace tessera::test
