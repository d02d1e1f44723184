#include "dsl/lower/iteration.hpp"

#include <algorithm>
#include <numeric>

#include "dsl/base/error.hpp"

namespace tessera::lower {

Iteration::Iteration(const Layout& layout, Expressions& expressions, int threads) : e_(expressions), threads_(threads) {
    for (const AxisModes& axis : layout.axes) {
        std::vector<int> at;
        for (const Mode& m : axis) {
            at.push_back(static_cast<int>(digits.size()));
            digits.push_back({m.extent, m.stride});
        }
        root.push_back(std::move(at));
    }
}

namespace {

/// Takes digits off the inner end until they make `extent`.
std::vector<int> take(std::vector<int>& from, std::int64_t extent, const std::vector<Digit>& digits) {
    std::vector<int> taken;
    while (extent > 1) {
        require_internal(!from.empty(), "a reshape runs out of digits");
        const int d = from.back();
        const std::int64_t n = digits[static_cast<std::size_t>(d)].extent;
        if (n > extent && n % extent == 0) throw NeedCut{d, extent};
        if (extent % n != 0) throw DigitsCross{};
        from.pop_back();
        taken.insert(taken.begin(), d);
        extent /= n;
    }
    return taken;
}

}  // namespace

Position Iteration::through(const ir::Node& node, const ir::Node& operand, const Position& at) const {
    Position result;
    if (node.as<ir::Broadcast>()) {
        for (int i = 0; i < operand.shape.rank(); ++i)
            result.push_back(operand.shape[i] == 1 ? std::vector<int>{} : at[static_cast<std::size_t>(i)]);
        return result;
    }
    if (const auto* p = node.as<ir::Permute>()) {
        result.resize(at.size());
        for (std::size_t i = 0; i < at.size(); ++i) result[static_cast<std::size_t>(p->order[i])] = at[i];
        return result;
    }
    if (node.as<ir::Reshape>()) {
        std::vector<int> all;
        for (const auto& axis : at) all.insert(all.end(), axis.begin(), axis.end());
        result.resize(static_cast<std::size_t>(operand.shape.rank()));
        for (int i = operand.shape.rank() - 1; i >= 0; --i)
            result[static_cast<std::size_t>(i)] = take(all, operand.shape[i], digits);
        return result;
    }
    return at;
}

void Iteration::cut(const NeedCut& need) {
    const auto d = static_cast<std::size_t>(need.digit);
    require_internal(digits[d].extent % need.inner == 0, "a digit cannot be cut where a value needs it");
    // The old index becomes the outer part; the inner part is new.
    const int inner = static_cast<int>(digits.size());
    digits.push_back({need.inner, digits[d].stride});
    digits[d].extent /= need.inner;
    if (digits[d].thread()) digits[d].stride *= need.inner;
    digits[d].expand = 1;
    for (auto& axis : root) {
        const auto it = std::find(axis.begin(), axis.end(), need.digit);
        if (it != axis.end()) axis.insert(it + 1, inner);
    }
}

void Iteration::expand(int digit, std::int64_t factor) {
    Digit& d = digits[static_cast<std::size_t>(digit)];
    if (d.thread() || d.extent == 1) return;
    require_internal(d.extent % factor == 0, "a digit cannot be written out in these steps");
    d.expand = std::lcm(d.expand, factor);
}

std::vector<std::int64_t> Iteration::coefficients(const RegisterTile& tile, const Position& at) const {
    std::vector<std::int64_t> result(digits.size(), 0);
    for (std::size_t a = 0; a < tile.layout.axes.size(); ++a) {
        std::vector<int> left = at[a];
        const AxisModes& modes = tile.layout.axes[a];
        for (std::size_t i = modes.size(); i-- > 0;) {
            std::int64_t inner = 1;
            for (int d : [&] {
                     std::vector<int> taken = take(left, modes[i].extent, digits);
                     std::reverse(taken.begin(), taken.end());
                     return taken;
                 }()) {
                const Digit& digit = digits[static_cast<std::size_t>(d)];
                require_internal(
                    digit.thread() == modes[i].thread() && (!digit.thread() || digit.stride == modes[i].stride * inner),
                    "a value is read in another layout than it has");
                if (!digit.thread()) result[static_cast<std::size_t>(d)] = tile.strides[a][i] * inner;
                inner *= digit.extent;
            }
        }
        require_internal(left.empty(), "a value has fewer elements than its reader");
    }
    return result;
}

Ref Iteration::value(int digit) const {
    const Digit& d = digits[static_cast<std::size_t>(digit)];
    if (d.thread()) {
        const Ref q = e_.div(e_.thread(), d.stride);
        return d.stride * d.extent == threads_ ? q : e_.mod(q, d.extent);
    }
    const Ref constant = e_.i32(d.constant);
    return d.counter ? e_.add(e_.mul(d.counter, d.expand), constant) : constant;
}

std::int64_t Iteration::weight_of(const std::vector<int>& axis, std::size_t i) const {
    std::int64_t w = 1;
    for (std::size_t k = i + 1; k < axis.size(); ++k) w *= digits[static_cast<std::size_t>(axis[k])].extent;
    return w;
}

Ref Iteration::thread_part(const std::vector<int>& axis) const {
    Ref sum = e_.i32(0);
    for (std::size_t i = 0; i < axis.size(); ++i)
        if (digits[static_cast<std::size_t>(axis[i])].thread())
            sum = e_.add(sum, e_.mul(value(axis[i]), weight_of(axis, i)));
    return sum;
}

Ref Iteration::slot_part(const std::vector<int>& axis) const {
    Ref sum = e_.i32(0);
    std::int64_t constant = 0;
    for (std::size_t i = 0; i < axis.size(); ++i) {
        const Digit& d = digits[static_cast<std::size_t>(axis[i])];
        if (d.thread()) continue;
        if (d.counter) sum = e_.add(sum, e_.mul(d.counter, d.expand * weight_of(axis, i)));
        constant += d.constant * weight_of(axis, i);
    }
    return e_.add(sum, e_.i32(constant));
}

Ref Iteration::coordinate(const std::vector<int>& axis) const { return e_.add(thread_part(axis), slot_part(axis)); }

void Iteration::each_constant(const std::vector<int>& held, const std::function<void()>& body) {
    std::vector<int> free;
    for (std::size_t d = 0; d < digits.size(); ++d) {
        digits[d].constant = 0;
        if (digits[d].expand > 1 && std::find(held.begin(), held.end(), static_cast<int>(d)) == held.end())
            free.push_back(static_cast<int>(d));
    }
    for (;;) {
        body();
        std::size_t i = free.size();
        while (i > 0) {  // the last digit runs fastest
            Digit& d = digits[static_cast<std::size_t>(free[i - 1])];
            if (++d.constant < d.expand) break;
            d.constant = 0;
            --i;
        }
        if (i == 0) return;
    }
}

int Iteration::innermost_slot(const std::vector<int>& axis) const {
    for (std::size_t i = axis.size(); i-- > 0;) {
        const Digit& d = digits[static_cast<std::size_t>(axis[i])];
        if (d.extent == 1) continue;
        return d.thread() ? -1 : axis[i];
    }
    return -1;
}

}  // namespace tessera::lower
