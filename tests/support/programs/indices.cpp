#include <cstring>
#include <numeric>

#include "tests/support/programs/writer.hpp"

// Gathers and scatters by tiles of indices. Some point outside, on both sides.

namespace tessera::test {

/// A tensor of indices, of a type of 32 or 64 bits.
int Writer::index_tensor(Element type, std::int64_t count, std::int64_t extent, bool distinct) {
    std::vector<std::int64_t> values(static_cast<std::size_t>(std::max(count, extent) + 4));
    std::iota(values.begin(), values.end(), -2);
    for (std::size_t i = values.size(); i-- > 1;)
        std::swap(values[i], values[static_cast<std::size_t>(random_.between(0, static_cast<std::int64_t>(i)))]);
    const std::size_t size = static_cast<std::size_t>(bits_of(type) / 8);
    std::vector<std::uint8_t> bytes(static_cast<std::size_t>(count) * size);
    for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
        const std::int64_t value = distinct ? values[i] : random_.between(-1, extent);
        std::memcpy(&bytes[i * size], &value, size);
    }
    const detail::AxisSpec axis{index(count)};
    tensors_.push_back(std::move(bytes));
    return detail::tensor(name("at").c_str(), type, ir::Role::input, &axis, 1, 16, here());
}

Item Writer::indices(std::int64_t count, std::int64_t extent, bool distinct) {
    const Element type = random_.pick({i32, i64});
    const Item* known =
        pool_.find(random_, [&](const Item& i) { return (i.type == i32 || i.type == i64) && i.shape == Shape{count}; });
    if (known != nullptr && !distinct && random_.one_in(2)) return *known;
    ViewSpec v;
    v.memory = index_tensor(type, count, extent, distinct);
    v.rank = 1;
    v.offset[0] = index(0), v.extent[0] = count;
    const Item item{detail::load(v, nullptr, {}, here()), type, {count}, static_cast<double>(count + extent + 4), true};
    pool_.add(item);
    return item;
}

void Writer::gather() {
    const Element type = random_type();
    const int memory = matrix("g", type, ir::Role::input);
    ViewSpec v = tile_of(memory);
    const std::int64_t which = random_.between(1, 3);
    if (which & 1) v.offset[0] = indices(tile_rows_, rows_.value, false).node;
    if (which & 2) v.offset[1] = indices(tile_columns_, columns_.value, false).node;
    pool_.add(loaded(v, type, tile_shape()));
}

/// Along one axis of a tile that holds whole numbers.
void Writer::gather_shared() {
    std::vector<SharedTile> good;
    for (const SharedTile& t : shared_)
        if (t.filled && is_integer(t.type)) good.push_back(t);
    if (good.empty()) return;
    const SharedTile t = random_.pick_from(good);
    ViewSpec v = whole(t);
    Shape shape = t.shape;
    const int axis = static_cast<int>(random_.between(0, shape.rank() - 1));
    std::int64_t most = shape[axis] + 3;
    while (shape.count() / shape[axis] * most > 2048) most = (most + 1) / 2;
    shape[axis] = v.extent[axis] = random_.between(1, most);
    if (!spreads(shape)) return;
    v.offset[axis] = indices(shape[axis], t.shape[axis], false).node;
    pool_.add({detail::load(v, nullptr, {}, here()), t.type, shape, largest(t.type) + 1, true});
}

/// To places of the block's own, each at most once; or added to places that all blocks share.
void Writer::scatter() {
    const Item item = *pool_.find(random_, [](const Item& i) { return i.shape.rank() <= 4; });
    const int rank = item.shape.rank(), axis = static_cast<int>(random_.between(0, rank - 1));
    Shape extents = item.shape;
    extents[axis] = random_.between(1, item.shape[axis] + 3);
    const bool add = is_integer(item.type) && bits_of(item.type) >= 32;
    const int own = add ? 0 : 2;
    std::vector<detail::AxisSpec> axes;
    ViewSpec v;
    std::int64_t count = extents.count();
    for (int a = 0; a < own; ++a) {
        const Length& length = a == 0 ? rows_ : columns_;
        const std::int64_t tile = a == 0 ? tile_rows_ : tile_columns_;
        axes.push_back({tiles(length.node, tile)});
        v.offset[a] = block_[a], v.extent[a] = 1, v.picked[a] = true;
        count *= tiles(length.value, tile);
    }
    for (int a = 0; a < rank; ++a) {
        axes.push_back({index(extents[a])});
        v.offset[own + a] = index(0), v.extent[own + a] = item.shape[a];
    }
    v.rank = own + rank;
    v.offset[own + axis] = indices(item.shape[axis], extents[axis], !add).node;
    v.memory = tensor("s", item.type, add ? ir::Role::inout : ir::Role::output, axes, count);
    add ? detail::atomic_add(v, item.node, here()) : detail::store(v, item.node, here(), random_cache());
}

/// To a tile that was cleared, which is read back.
void Writer::scatter_shared() {
    const Item* found = pool_.find(random_, [](const Item& i) {
        return i.shape.rank() <= 3 && has_arithmetic(i.type) && i.shape.count() <= 1024;
    });
    if (found == nullptr) return;
    Item item = *found;
    const int axis = static_cast<int>(random_.between(0, item.shape.rank() - 1));
    Shape extents = item.shape;
    extents[axis] = random_.between(1, item.shape[axis] + 3);
    if (!spreads(extents)) return;
    const SharedTile tile = new_tile(item.type, extents);
    if (tile.shape.empty()) return;
    const Ref zero = detail::constant(item.type, std::int64_t{0}, here());
    detail::store(whole(tile), detail::broadcast_to(zero, extents, here()), here());
    const bool add = is_integer(item.type) && bits_of(item.type) >= 32 && random_.one_in(2);
    ViewSpec v = whole(tile);
    v.extent[axis] = item.shape[axis];
    v.offset[axis] = indices(item.shape[axis], extents[axis], !add).node;
    add ? detail::atomic_add(v, item.node, here()) : detail::store(v, item.node, here());
    if (add) item.bound = largest(item.type) + 1;
    item.node = detail::load(whole(tile), nullptr, {}, here());
    item.shape = extents;
    pool_.add(item);
}

}  // namespace tessera::test
