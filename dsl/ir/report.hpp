#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

#include "dsl/ir/program.hpp"

// What a launch finds wrong with its data. All blocks share one record of 16 bytes, which keeps the first offender: the
// lowest rule, then the first element in row-major order. So which one it is does not depend on the order of blocks.

namespace tessera::ir {

inline constexpr int rule_shift = 56;   // a record's place: the rule's number in the top 8 bits
inline constexpr int column_bits = 24;  // below it, of a tensor of rank 2: the row, then the column …
inline constexpr std::uint64_t last_column = (std::uint64_t{1} << column_bits) - 1;  // … or this, if it lies beyond
inline constexpr std::size_t most_rules = 255;

/// A record as it lies in memory. All bits set: nothing was found.
struct Offender {
    std::uint64_t place = ~std::uint64_t{0};
    std::uint64_t value = ~std::uint64_t{0};

    bool found() const { return place != ~std::uint64_t{0}; }
    int rule() const { return static_cast<int>(place >> rule_shift); }
    /// Of two, the one that a record keeps.
    static Offender first(const Offender& a, const Offender& b) { return b.place < a.place ? b : a; }
};

/// "rows.cpp:31: kernel k: pos[3, 1] is 9000, but a position is a row of out" and what that means for the launch.
std::string sentence_of(const Program& program, const Offender& found);

}  // namespace tessera::ir
