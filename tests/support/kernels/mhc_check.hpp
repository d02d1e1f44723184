#pragma once

#include <string>

#include "runtime/device.hpp"
#include "tests/support/mhc_cases.hpp"

namespace tessera::test {

// Each runs a kernel forward and backward on the device, into given tensors (filled with a sentinel, between guard
// bands), again (equal bits), and returning tensors, and compares with the float64 reference. "" if all is well, else
// what differs.

std::string check_mhc_sinkhorn(const Device& device, const MhcCase& c);
std::string check_mhc_post(const Device& device, const MhcCase& c);
std::string check_mhc_apply_mix(const Device& device, const MhcCase& c);
std::string check_mhc_expand(const Device& device, const MhcCase& c);
std::string check_mhc_split_mixes(const Device& device, const MhcCase& c);
std::string check_mhc_head(const Device& device, const MhcCase& c);

std::string check_mhc_norm_fn(const Device& device, const MhcNormCase& c);
/// The halves of fn, and the product from them, whatever the plan would take. There are tokens.
std::string check_mhc_norm_halves(const Device& device, const MhcNormCase& c);
std::string check_mhc_merge_norm_weight(const Device& device, const MhcNormCase& c);
/// With the bits of norm_fn, split_mixes, sinkhorn and apply_mix, too.
std::string check_mhc_pre_big_fuse(const Device& device, const MhcNormCase& c);

}  // namespace tessera::test
