#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "dsl/base/shape.hpp"

// How a tile lies over the threads of a block. Each axis is a mixed-radix number whose digits ("modes", outermost
// first) come either from the thread's index or from the slot in the thread's registers:
//   coordinate = Σ digit · (product of the extents inside it);   thread digit = (thread / stride) % extent.
// Thread bits that no mode names hold copies of the same elements.

namespace tessera {

struct Mode {
    std::int64_t extent = 1;
    std::int64_t stride = 0;  // in threads; 0 for a slot mode
    bool thread() const { return stride != 0; }
    friend bool operator==(const Mode&, const Mode&) = default;
};

using AxisModes = std::vector<Mode>;  // outermost first

struct Layout {
    std::vector<AxisModes> axes;
    friend bool operator==(const Layout&, const Layout&) = default;
};

/// Extents of the tile that the layout covers.
Shape extents_of(const Layout& layout);
/// Elements that one thread holds.
std::int64_t slots_of(const Layout& layout);
/// Neighbouring modes joined where they are one run, modes of extent 1 dropped. Equal layouts become identical.
Layout canonical(Layout layout);
/// The layout of a tile whose `axis` has been reduced to extent 1: that axis' threads hold copies.
Layout project(const Layout& layout, int axis);
/// Axis i of the result is axis order[i].
Layout permute(const Layout& layout, const std::vector<int>& order);
/// The same elements under other extents, row-major; nothing if an axis border would fall inside a digit.
std::optional<Layout> reshape(const Layout& layout, const Shape& extents);
/// Neighbouring threads along `contiguous`, then along the other axes from the last; each thread holds `inner[i]`
/// consecutive elements along axis i and what the threads do not cover. inner[i] divides the extent; threads is a power
/// of 2. At most `lanes` threads lie along `contiguous`, a power of 2; 0: as many as fit.
Layout natural_layout(const Shape& extents, int contiguous, const Shape& inner, int threads, int lanes = 0);

/// "[4 | t128 · 8]": slot digits bare, thread digits with t.
std::string text_of(const Layout& layout);

}  // namespace tessera
