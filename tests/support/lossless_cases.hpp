#pragma once

#include <string>
#include <vector>

#include "runtime/device.hpp"
#include "tests/support/reference/lossless.hpp"

namespace tessera::test {

/// One random case of per_block_cast_lossless.
struct LosslessCase {
    std::int64_t tokens, hidden;
    reference::QuantizeRule from, to;
    std::int64_t scale_gap, out_scale_gap;  // words between the runs of scales in columns, more than there must be
    std::int64_t shift, out_shift;          // bytes that codes and data lie past a 256-byte boundary
    bool broken;                            // some scales break a rule
    std::uint64_t seed;

    std::string text() const;
    /// Codes, among them blocks of zeros, and scales that spread as far as a lossless cast allows, or further.
    reference::Quantized input() const;
};

std::vector<LosslessCase> lossless_cases(int count);

/// Runs one case with given outputs, between guard bands, and with returned ones, and compares every byte, or what is
/// reported, with the reference. "" if all is well, else what differs.
std::string check_lossless(const Device& device, const LosslessCase& c);

}  // namespace tessera::test
