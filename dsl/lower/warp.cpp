#include "dsl/lower/warp.hpp"

#include <algorithm>
#include <bit>

namespace tessera::lower {

Mode lanes_of(const Mode& m) {
    return m.stride >= warp_lanes ? Mode{1, m.stride} : Mode{std::min(m.extent, warp_lanes / m.stride), m.stride};
}
Mode warps_of(const Mode& m) {
    if (m.stride >= warp_lanes) return m;
    if (m.stride * m.extent <= warp_lanes) return {1, warp_lanes};
    return {m.stride * m.extent / warp_lanes, warp_lanes};
}

std::vector<int> lane_masks(const Layout& layout, int axis) {
    std::vector<int> masks;
    for (const Mode& m : layout.axes[static_cast<std::size_t>(axis)]) {
        if (!m.thread()) continue;
        const Mode lanes = lanes_of(m);
        for (std::int64_t k = 1; k < lanes.extent; k *= 2) masks.push_back(static_cast<int>(lanes.stride * k));
    }
    std::sort(masks.rbegin(), masks.rend());
    return masks;
}

bool owns_warp(const Layout& layout, int axis) {
    for (std::size_t a = 0; a < layout.axes.size(); ++a)
        for (const Mode& m : layout.axes[a])
            if (static_cast<int>(a) != axis && m.thread() && lanes_of(m).extent > 1) return false;
    return true;
}

Layout least_layout(const Layout& value, const ir::Least& least) {
    Layout layout = project(value, least.axis);
    const auto kept = static_cast<std::int64_t>(std::bit_ceil(static_cast<unsigned>(least.count - least.first)));
    layout.axes[static_cast<std::size_t>(least.axis)] = {{kept, owns_warp(value, least.axis) ? 1 : 0}};
    return canonical(layout);
}

}  // namespace tessera::lower
