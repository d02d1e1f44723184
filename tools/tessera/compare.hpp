#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tools/tessera/golden_case.hpp"

namespace tessera::tool {

/// How an output is compared with the file (tests/golden/README.md).
struct Rule {
    /// The output holds packed scales of that many blocks a row: the bytes behind them are unspecified in the file and
    /// must be 0 in ours. 0: every bit counts.
    std::int64_t packed_blocks = 0;
    /// Which rows (along the first axis) count; empty: all. The others are unspecified, in ours too.
    std::vector<bool> rows = {};
    /// FP32 on the host executor, which has another exp: that many units in the last place may differ.
    int host_ulps = 0;
    /// FP32: |ours − file| ≤ absolute + relative · |file|.
    double absolute = 0, relative = 0;
    /// FP32 and BF16: |ours − file| ≤ limits[i] for element i, in logical order, and for BF16 a unit in the last place
    /// more. Empty: no such allowance.
    std::vector<double> limits = {};
    /// I64: the file may hold a whole multiple of ours, the same for all elements.
    bool multiple = false;
    /// What the elements must be instead of the file's, where the file has but one of several right answers.
    std::vector<std::byte> values = {};
    /// What is wrong with the file itself; nothing agrees with it then.
    std::string broken = {};

    bool exact() const { return host_ulps == 0 && absolute == 0 && relative == 0 && limits.empty(); }
};

/// An output as a kernel left it, copied to the host.
struct Result {
    CaseTensor tensor;
    std::vector<std::byte> padding;  // memory of the output that belongs to no element; must be 0
    bool host = false;               // it comes from the host executor
};

/// Nothing if the result is what the case expects; else a sentence about the type, extents, strides along extents > 1,
/// or the first differing element with its coordinates and both bit patterns.
std::optional<std::string> difference(const CaseTensor& expected, const Result& got, const Rule& rule = {});

}  // namespace tessera::tool
