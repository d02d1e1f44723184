#pragma once

#include <functional>
#include <string>
#include <vector>

#include "dsl/base/layout.hpp"
#include "dsl/lower/expressions.hpp"

// One thread's walk over the elements it holds. The walk's digits are those of a root layout, cut finer where a value
// that takes part lies in finer runs; a digit is a thread's, a loop counter's, or written out ("expanded") as
// constants.

namespace tessera::lower {

/// Which digits make each axis of a tile, outermost first: indices into Iteration::digits.
using Position = std::vector<std::vector<int>>;

struct Digit {
    std::int64_t extent = 1;
    std::int64_t stride = 0;    // of a thread digit; 0 for a slot
    std::int64_t expand = 1;    // how many values of it are written out in a loop's body; divides the extent
    Ref counter = nullptr;      // of the loop over extent / expand
    std::int64_t constant = 0;  // the written-out part now
    bool thread() const { return stride != 0; }
};

/// Thrown while looking ahead: digit `digit` must be cut so that its inner part has extent `inner`.
struct NeedCut {
    int digit;
    std::int64_t inner;
};

/// Thrown while looking ahead: the border of an axis falls inside a digit that cannot be cut there, as when one value
/// is seen in rows of 7 and another in rows of 15. `view` is the reshape that asks for it, once that is known.
struct DigitsCross {
    const ir::Node* view = nullptr;
};

/// Registers of a tile: word index and lane are affine in the slot digits.
struct RegisterTile {
    int array = -1;
    Element type = Element::f32;
    Layout layout;                                   // canonical
    std::vector<std::vector<std::int64_t>> strides;  // in elements, by axis and mode; 0 for thread modes
    int pack = 1;
};

class Iteration {
public:
    Iteration(const Layout& root, Expressions& expressions, int threads);

    std::vector<Digit> digits;
    Position root;

    /// The digits of an operand seen through `node`. Throws NeedCut where a border falls inside a digit, DigitsCross
    /// where it cannot be put.
    Position through(const ir::Node& node, const ir::Node& operand, const Position& at) const;

    /// Cuts a digit of the root.
    void cut(const NeedCut& need);
    /// At least `factor` values of the digit are to be written out.
    void expand(int digit, std::int64_t factor);

    /// Coefficient of each digit in the element index of a register tile. Throws NeedCut and DigitsCross.
    std::vector<std::int64_t> coefficients(const RegisterTile& tile, const Position& at) const;

    /// A digit's value now, i32.
    Ref value(int digit) const;
    /// Coordinate along an axis, i32: the thread's part, and the part of loop counters and constants.
    Ref thread_part(const std::vector<int>& axis) const;
    Ref slot_part(const std::vector<int>& axis) const;
    Ref coordinate(const std::vector<int>& axis) const;

    /// Runs `body` for every combination of written-out constants of the digits not in `held`.
    void each_constant(const std::vector<int>& held, const std::function<void()>& body);
    /// The innermost digit of an axis if it is a slot, else −1.
    int innermost_slot(const std::vector<int>& axis) const;

private:
    std::int64_t weight_of(const std::vector<int>& axis, std::size_t i) const;
    Expressions& e_;
    int threads_;
};

}  // namespace tessera::lower
