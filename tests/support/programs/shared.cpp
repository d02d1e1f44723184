#include "tests/support/programs/writer.hpp"

// Shared tiles of a random program.

namespace tessera::test {

namespace {

constexpr std::int64_t largest_shared = 40 * 1024;  // bytes of all shared tiles

}  // namespace

/// Writes a value to a shared tile, old or new, and reads all or a part of it back.
void Writer::through_shared() {
    const Item* found = pool_.find(random_, [](const Item& i) { return i.shape.rank() <= 3; });
    if (found == nullptr) return;
    const Item item = *found;
    SharedTile* tile = nullptr;
    for (SharedTile& t : shared_)
        if (t.type == item.type && t.shape == item.shape && random_.one_in(2)) tile = &t;
    if (tile == nullptr) {
        const SharedTile made = new_tile(item.type, item.shape);
        if (made.shape.empty()) return;
        shared_.push_back(made);
        tile = &shared_.back();
    }

    ViewSpec v = whole(*tile);
    detail::store(v, item.node, here());
    Item back = item;
    if (is_integer(item.type) && bits_of(item.type) >= 32 && random_.one_in(2)) {
        const Item* more =
            pool_.find(random_, [&](const Item& i) { return i.type == item.type && i.shape == item.shape; });
        for (int n = 0; n < 2; ++n) detail::atomic_add(v, n == 0 ? more->node : item.node, here());
        back.bound = largest(item.type) + 1;
    }
    if (random_.one_in(3)) {
        ViewSpec part = v;
        for (int a = 0; a < v.rank; ++a) {
            const std::int64_t from = random_.between(0, item.shape[a] - 1);
            part.offset[a] = index(from);
            part.extent[a] = back.shape[a] = random_.between(1, item.shape[a] - from);
        }
        if (spreads(back.shape))
            v = part;
        else
            back.shape = item.shape;
    }
    back.node = detail::load(v, nullptr, {}, here());
    pool_.add(back);
}

detail::ViewSpec Writer::whole(const SharedTile& tile) {
    ViewSpec v;
    v.space = ir::Space::shared;
    v.memory = tile.id;
    v.rank = tile.shape.rank();
    for (int a = 0; a < v.rank; ++a) v.extent[a] = tile.shape[a], v.offset[a] = index(0);
    return v;
}

/// Reads once more what a tile holds by now. Whole numbers only: later turns of a loop may store larger ones.
void Writer::reread_shared() {
    for (const SharedTile& t : shared_) {
        if (!t.filled || !is_integer(t.type) || random_.one_in(2)) continue;
        return pool_.add({detail::load(whole(t), nullptr, {}, here()), t.type, t.shape, largest(t.type) + 1, true});
    }
}

Writer::SharedTile Writer::new_tile(Element type, const Shape& shape, int least_base) {
    ir::Swizzle s;
    if (random_.one_in(2)) {
        s.bits = static_cast<int>(random_.between(1, 3));
        s.base = static_cast<int>(random_.between(least_base, std::max(3, least_base)));
        s.shift = s.bits + static_cast<int>(random_.between(0, 3));
        if (shape.count() % (std::int64_t{1} << (s.bits + s.base)) != 0) s = {};
    }
    return declared(type, shape, s);
}

Writer::SharedTile Writer::declared(Element type, const Shape& shape, const ir::Swizzle& s) {
    const std::int64_t bytes = shape.count() * (bits_of(type) / 8);
    if (shared_bytes_ + bytes > largest_shared) return {-1, type, {}, false};
    shared_bytes_ += bytes;
    const int id = detail::shared_tile(name("t").c_str(), type, shape, s.bits, s.base, s.shift, here());
    return {id, type, shape, true, s.bits > 0 ? s.base : 30};
}

}  // namespace tessera::test
