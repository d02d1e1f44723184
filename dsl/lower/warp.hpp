#pragma once

#include <vector>

#include "dsl/base/layout.hpp"
#include "dsl/ir/node.hpp"

// How the threads of a layout's axes divide into lanes of a warp and warps of the block.

namespace tessera::lower {

constexpr std::int64_t warp_lanes = 32;

/// The part of a thread digit inside a warp, and the part across warps.
Mode lanes_of(const Mode& m);
Mode warps_of(const Mode& m);

/// The XOR masks of the butterflies that bring the lanes of an axis together, largest first.
std::vector<int> lane_masks(const Layout& layout, int axis);

/// Whether no lane of a warp belongs to another place along the other axes: a reduction over the axis that copies do
/// not change may go over the whole warp.
bool owns_warp(const Layout& layout, int axis);

/// The layout of Least's result: an element a lane where the axis owns whole warps, else all of them in every thread.
Layout least_layout(const Layout& value, const ir::Least& least);

}  // namespace tessera::lower
