#pragma once

#include <optional>

#include "tests/support/reference/quantize.hpp"

namespace tessera::reference {

/// What the scales of a lossless cast must be, in the order in which breaches are told.
enum class LosslessRule { power_of_two, close_to_the_largest, largest_can_be_stored };

/// The first scale that breaks a rule: the lowest rule, then row by row.
struct Breach {
    LosslessRule rule;
    std::int64_t m, k;
};

struct Lossless {
    Quantized out;  // meaningless after a breach
    std::optional<Breach> breach;
};

/// E2M1 in blocks `from` to E4M3 in coarser blocks `to`, every value kept.
Lossless coarsen(const Quantized& q, std::int64_t rows, std::int64_t columns, const QuantizeRule& from,
                 const QuantizeRule& to);

}  // namespace tessera::reference
