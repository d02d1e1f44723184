#pragma once

#include <stdexcept>
#include <vector>

#include "dsl/front/detail.hpp"
#include "dsl/ir/node.hpp"
#include "tests/support/random.hpp"

namespace tessera::test {

/// A value of the program being written, with what is known of its elements.
struct Item {
    detail::Ref node;
    Element type;
    Shape shape;
    double bound;  // no element is larger in magnitude
    bool whole;    // every element is a whole number
};

inline bool has_arithmetic(Element t) { return t == f32 || t == bf16 || is_integer(t); }

/// The largest power of two that divides n; of 0 a large one.
inline std::int64_t even_part(std::int64_t n) { return n == 0 ? 1 << 20 : n & -n; }

/// Whether threads can share a tile: what is odd of its number of elements stays with each.
inline bool spreads(const Shape& shape) { return shape.count() / even_part(shape.count()) <= 256; }

/// Largest magnitude that an integer type holds on both sides of 0 (unsigned: above it).
inline double largest(Element t) {
    const int width = bits_of(t) - (is_signed_integer(t) ? 1 : 0);
    return std::ldexp(1.0, width) - 1;
}

/// Values in scope, most recent last.
class Pool {
public:
    void add(const Item& item) {
        if (!(item.node->shape == item.shape) || item.node->type != item.type)
            throw std::logic_error("the generator and the front end disagree about a tile's extents or type");
        items_.push_back(item);
    }
    std::size_t size() const { return items_.size(); }
    void shrink(std::size_t size) { items_.resize(size, Item{}); }
    const std::vector<Item>& items() const { return items_; }

    /// A random item that fits, the newer ones preferred; null if none does.
    template <class Fits>
    const Item* find(Random& random, Fits&& fits) const {
        std::vector<const Item*> good;
        for (const Item& item : items_)
            if (fits(item)) good.push_back(&item);
        if (good.empty()) return nullptr;
        const auto n = static_cast<std::int64_t>(good.size());
        return good[static_cast<std::size_t>(random.one_in(2) ? random.between(0, n - 1)
                                                              : random.between(n > 3 ? n - 3 : 0, n - 1))];
    }

private:
    std::vector<Item> items_;
};

}  // namespace tessera::test
