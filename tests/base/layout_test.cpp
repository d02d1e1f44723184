#include "dsl/base/layout.hpp"

#include <catch2/catch.hpp>
#include <map>
#include <random>
#include <set>
#include <vector>

// Every law is checked over the whole domain: all threads and all slots, against plain index arithmetic.

using namespace tessera;

namespace {

constexpr int threads = 64;

/// Slot digits are counted from the innermost of the last axis, in every layout alike.
std::vector<std::int64_t> coordinate(const Layout& layout, std::int64_t thread, std::int64_t slot) {
    std::vector<std::int64_t> result(layout.axes.size(), 0);
    for (std::size_t a = layout.axes.size(); a-- > 0;) {
        std::int64_t weight = 1;
        for (std::size_t i = layout.axes[a].size(); i-- > 0;) {
            const Mode& m = layout.axes[a][i];
            std::int64_t digit = 0;
            if (m.thread()) {
                digit = thread / m.stride % m.extent;
            } else {
                digit = slot % m.extent;
                slot /= m.extent;
            }
            result[a] += digit * weight;
            weight *= m.extent;
        }
    }
    return result;
}

std::int64_t row_major(const std::vector<std::int64_t>& c, const Shape& extents) {
    std::int64_t i = 0;
    for (int a = 0; a < extents.rank(); ++a) i = i * extents[a] + c[static_cast<std::size_t>(a)];
    return i;
}

/// Which elements (row-major numbers) each thread holds.
std::vector<std::multiset<std::int64_t>> holdings(const Layout& layout) {
    const Shape extents = extents_of(layout);
    std::vector<std::multiset<std::int64_t>> result(threads);
    for (int t = 0; t < threads; ++t)
        for (std::int64_t s = 0; s < slots_of(layout); ++s)
            result[static_cast<std::size_t>(t)].insert(row_major(coordinate(layout, t, s), extents));
    return result;
}

/// Layouts of many extents, contiguous axes and inner runs.
std::vector<Layout> samples() {
    std::vector<Layout> result;
    for (const Shape& extents : {Shape{4, 256}, Shape{16, 24}, Shape{3, 5}, Shape{1, 576}, Shape{2, 8, 32}, Shape{7},
                                 Shape{64, 64}, Shape{1, 1}})
        for (int contiguous = 0; contiguous < extents.rank(); ++contiguous)
            for (std::int64_t run : {1, 2, 8}) {
                if (extents[contiguous] % run != 0) continue;
                Shape inner;
                for (int a = 0; a < extents.rank(); ++a) inner.push_back(a == contiguous ? run : 1);
                result.push_back(natural_layout(extents, contiguous, inner, threads));
            }
    result.push_back(natural_layout({32, 64}, 1, {4, 8}, threads));  // squares
    return result;
}

}  // namespace

TEST_CASE("a natural layout holds every element, equally often, and nothing else") {
    for (const Layout& layout : samples()) {
        INFO(text_of(layout));
        std::map<std::int64_t, int> copies;
        for (const auto& held : holdings(layout))
            for (std::int64_t e : held) ++copies[e];
        const std::int64_t count = extents_of(layout).count();
        REQUIRE(static_cast<std::int64_t>(copies.size()) == count);
        REQUIRE(copies.begin()->first == 0);
        REQUIRE(copies.rbegin()->first == count - 1);
        for (const auto& [element, n] : copies) REQUIRE(n == copies.begin()->second);
        REQUIRE(slots_of(layout) * threads == count * copies.begin()->second);
    }
}

TEST_CASE("a thread of a natural layout holds runs along the contiguous axis, and its neighbour the next run") {
    const Layout layout = natural_layout({4, 256}, 1, {1, 8}, threads);
    for (int t = 0; t < 32; ++t)
        for (std::int64_t s = 0; s < 8; ++s)
            REQUIRE(coordinate(layout, t, s) == std::vector<std::int64_t>{t / 32, t % 32 * 8 + s});
}

TEST_CASE("canonical form moves no element and is a fixed point") {
    for (const Layout& layout : samples()) {
        Layout cut = layout;  // digits of 1 and cut digits change nothing
        for (AxisModes& axis : cut.axes) {
            AxisModes finer;
            for (const Mode& m : axis) {
                finer.push_back({1, 0});
                if (m.extent % 2 == 0) {
                    finer.push_back({m.extent / 2, m.stride * 2});
                    finer.push_back({2, m.stride});
                } else {
                    finer.push_back(m);
                }
            }
            axis = finer;
        }
        INFO(text_of(cut));
        REQUIRE(holdings(canonical(cut)) == holdings(layout));
        REQUIRE(canonical(cut) == layout);
        REQUIRE(canonical(layout) == layout);
    }
}

TEST_CASE("projection keeps the other coordinates; threads of the axis hold copies") {
    for (const Layout& layout : samples())
        for (std::size_t axis = 0; axis < layout.axes.size(); ++axis) {
            const Layout flat = project(layout, static_cast<int>(axis));
            Shape extents = extents_of(layout);
            const Shape full = extents;
            extents[static_cast<int>(axis)] = 1;
            REQUIRE(extents_of(flat) == extents);
            for (int t = 0; t < threads; ++t) {
                std::set<std::int64_t> expected, held;
                for (std::int64_t s = 0; s < slots_of(layout); ++s) {
                    auto c = coordinate(layout, t, s);
                    c[axis] = 0;
                    expected.insert(row_major(c, extents));
                }
                for (std::int64_t s = 0; s < slots_of(flat); ++s)
                    held.insert(row_major(coordinate(flat, t, s), extents));
                REQUIRE(held == expected);
            }
            REQUIRE(full.count() >= extents.count());
        }
}

TEST_CASE("reshape moves no element, in row-major order, and is undone by the reshape back") {
    int done = 0, refused = 0;
    for (const Layout& layout : samples()) {
        const Shape before = extents_of(layout);
        const std::int64_t n = before.count();
        for (std::int64_t a : {1, 2, 3, 4, 8, 16, 32, 64})
            for (std::int64_t b : {1, 2, 5, 8, 32}) {
                if (n % (a * b) != 0) continue;
                const Shape after{a, n / (a * b), b};
                const auto shaped = reshape(layout, after);
                if (!shaped) {
                    ++refused;
                    continue;
                }
                ++done;
                INFO(text_of(layout) << " to " << text_of(*shaped));
                REQUIRE(extents_of(*shaped) == after);
                REQUIRE(holdings(*shaped) == holdings(layout));
                const auto back = reshape(*shaped, before);
                REQUIRE(back);
                REQUIRE(*back == layout);
            }
    }
    CHECK(done > 100);
    CHECK(refused > 0);  // a border inside a digit
}

TEST_CASE("permute renames axes") {
    for (const Layout& layout : samples()) {
        const int rank = static_cast<int>(layout.axes.size());
        std::vector<int> order;
        for (int i = 0; i < rank; ++i) order.push_back((i + 1) % rank);
        const Layout turned = permute(layout, order);
        const Shape before = extents_of(layout), after = extents_of(turned);
        for (int i = 0; i < rank; ++i) REQUIRE(after[i] == before[order[static_cast<std::size_t>(i)]]);
        for (int t = 0; t < threads; ++t) {
            std::multiset<std::vector<std::int64_t>> expected, held;
            for (std::int64_t s = 0; s < slots_of(layout); ++s) {
                const auto c = coordinate(layout, t, s);
                std::vector<std::int64_t> p;
                for (int axis : order) p.push_back(c[static_cast<std::size_t>(axis)]);
                expected.insert(p);
                held.insert(coordinate(turned, t, s));
            }
            REQUIRE(held == expected);
        }
    }
}
