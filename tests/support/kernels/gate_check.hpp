#pragma once

#include <string>

#include "runtime/device.hpp"
#include "tests/support/gate_cases.hpp"

namespace tessera::test {

// As in checks.hpp: "" if all is well, else what differs.

/// By single experts or, where the case has groups, by groups.
std::string check_topk(const Device& device, const TopkCase& c);
/// Away from the host, rows whose keys lie so near that another exp may swap them are passed over.
std::string check_top2_sum_gate(const Device& device, const GateCase& c);

std::string check_mask_by_tp(const Device& device, const IdsCase& c);
std::string check_unique(const Device& device, const IdsCase& c);
/// group_count and aux_fi.
std::string check_counts(const Device& device, const IdsCase& c);
/// The ids' seed draws weights.
std::string check_normalize(const Device& device, const IdsCase& c);

}  // namespace tessera::test
