#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "dsl/base/element.hpp"
#include "runtime/launch/term.hpp"

// A launch plan as a launch reads it. The driver's own launch leaves little of this program in the first caches, so
// the lines of memory that a check touches cost as much as what it computes.

namespace tessera::runtime {

/// What a tensor must be before its axes are looked at.
struct TensorCheck {
    std::uint32_t low_bits;  // of the address, which are 0
    Element type;
    std::uint8_t rank;
    bool written;
    bool packed;  // only type and bytes are checked
};

/// Where the number of a scalar parameter comes from.
struct ScalarBinding {
    enum class From : std::uint8_t {
        extent,             // of `axis` of `tensor`
        stride,             // likewise
        first_used_stride,  // of several sources, the first whose stride some element uses
        given,              // by name
    };
    std::int64_t multiple_of;
    const char* name;
    From from;
    Element type;
    std::uint8_t tensor, axis;
};

/// One comparison of a tensor with what the program says of it.
struct LayoutCheck {
    enum class What : std::uint8_t { extent, stride, apart, packed };
    enum class Expected : std::uint8_t { number, scalar, term };
    What what;
    std::uint8_t tensor, axis = 0;
    Expected expected = Expected::number;
    std::int64_t number = 0;  // or the index of the scalar, or of the term
};

/// All checks of a plan behind one another, in the order in which a launch does them.
class LaunchChecks {
public:
    LaunchChecks() = default;
    /// The terms of the grid come after those of layout checks.
    LaunchChecks(std::span<const TensorCheck> tensors, std::span<const ScalarBinding> scalars,
                 std::span<const LayoutCheck> layouts, std::span<const Term> terms, std::size_t grid_terms);

    std::span<const TensorCheck> tensors() const { return tensors_; }
    std::span<const ScalarBinding> scalars() const { return scalars_; }
    std::span<const LayoutCheck> layouts() const { return layouts_; }
    const Term& term(std::int64_t index) const { return terms_[static_cast<std::size_t>(index)]; }
    std::span<const Term> grid() const { return grid_; }
    /// How many scalars are given by name.
    std::size_t given() const { return given_; }

private:
    std::span<const TensorCheck> tensors_;
    std::span<const ScalarBinding> scalars_;
    std::span<const LayoutCheck> layouts_;
    std::span<const Term> grid_;
    const Term* terms_ = nullptr;
    std::size_t given_ = 0;
    std::unique_ptr<std::byte[]> memory_;
};

}  // namespace tessera::runtime
