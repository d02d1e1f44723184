#include "dsl/base/layout.hpp"

#include <algorithm>
#include <numeric>

namespace tessera {

Shape extents_of(const Layout& layout) {
    Shape shape;
    for (const AxisModes& axis : layout.axes) {
        std::int64_t n = 1;
        for (const Mode& m : axis) n *= m.extent;
        shape.push_back(n);
    }
    return shape;
}

std::int64_t slots_of(const Layout& layout) {
    std::int64_t n = 1;
    for (const AxisModes& axis : layout.axes)
        for (const Mode& m : axis)
            if (!m.thread()) n *= m.extent;
    return n;
}

Layout canonical(Layout layout) {
    for (AxisModes& axis : layout.axes) {
        AxisModes joined;
        for (const Mode& m : axis) {
            if (m.extent == 1) continue;
            if (!joined.empty()) {
                Mode& outer = joined.back();
                const bool slots = !outer.thread() && !m.thread();
                const bool threads = outer.thread() && m.thread() && outer.stride == m.stride * m.extent;
                if (slots || threads) {
                    outer = {outer.extent * m.extent, m.stride};
                    continue;
                }
            }
            joined.push_back(m);
        }
        axis = std::move(joined);
    }
    return layout;
}

Layout project(const Layout& layout, int axis) {
    Layout result = layout;
    result.axes[static_cast<std::size_t>(axis)].clear();
    return result;
}

Layout permute(const Layout& layout, const std::vector<int>& order) {
    Layout result;
    for (int axis : order) result.axes.push_back(layout.axes[static_cast<std::size_t>(axis)]);
    return result;
}

std::optional<Layout> reshape(const Layout& layout, const Shape& extents) {
    AxisModes all;
    for (const AxisModes& axis : layout.axes) all.insert(all.end(), axis.begin(), axis.end());
    Layout result;
    result.axes.resize(static_cast<std::size_t>(extents.rank()));
    for (int i = extents.rank() - 1; i >= 0; --i) {
        AxisModes axis;
        std::int64_t left = extents[i];
        while (left > 1) {
            if (all.empty()) return std::nullopt;
            Mode m = all.back();
            all.pop_back();
            if (m.extent > left) {  // cut the digit: its inner part stays on this axis
                if (m.extent % left != 0) return std::nullopt;
                all.push_back({m.extent / left, m.stride * left});
                m.extent = left;
            } else if (left % m.extent != 0) {
                return std::nullopt;
            }
            left /= m.extent;
            if (m.extent > 1) axis.insert(axis.begin(), m);
        }
        result.axes[static_cast<std::size_t>(i)] = std::move(axis);
    }
    return canonical(std::move(result));
}

Layout natural_layout(const Shape& extents, int contiguous, const Shape& inner, int threads, int most) {
    Layout layout;
    layout.axes.resize(static_cast<std::size_t>(extents.rank()));
    std::int64_t stride = 1;
    const auto distribute = [&](int axis) {
        const std::int64_t rest = extents[axis] / inner[axis];
        const std::int64_t room = axis == contiguous && most > 0 ? std::min(most, threads) : threads / stride;
        const std::int64_t lanes = std::gcd(rest, room);
        layout.axes[static_cast<std::size_t>(axis)] = {{rest / lanes, 0}, {lanes, stride}, {inner[axis], 0}};
        stride *= lanes;
    };
    distribute(contiguous);
    for (int axis = extents.rank() - 1; axis >= 0; --axis)
        if (axis != contiguous) distribute(axis);
    return canonical(std::move(layout));
}

std::string text_of(const Layout& layout) {
    std::string text = "[";
    for (std::size_t a = 0; a < layout.axes.size(); ++a) {
        if (a) text += " | ";
        if (layout.axes[a].empty()) text += "1";
        for (std::size_t i = 0; i < layout.axes[a].size(); ++i) {
            const Mode& m = layout.axes[a][i];
            if (i) text += "·";
            text += (m.thread() ? "t" : "") + std::to_string(m.extent);
        }
    }
    return text + "]";
}

}  // namespace tessera
