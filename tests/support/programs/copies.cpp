#include "tests/support/programs/writer.hpp"

// Copies to shared tiles that are under way for a while.

namespace tessera::test {

Shape Writer::copy_shares(const Shape& shape, std::int64_t vector) {
    if (random_.one_in(2)) return {};
    Shape shares = shape;
    for (int a = 0; a + 1 < shape.rank(); ++a) shares[a] = shape[a] % 2 == 0 && random_.one_in(3) ? 2 : 1;
    std::int64_t& along = shares[shape.rank() - 1];
    along = vector;
    while (along < 16 && shape.back() % (2 * along) == 0 && random_.one_in(2)) along *= 2;
    return shares;
}

void Writer::start_copy() {
    Element type = random_type();
    if (std::min(even_part(tile_columns_), columns_.multiple) < least_vector(type))
        type = random_.pick({f32, i32, u32, i64});
    const std::int64_t vector = least_vector(type);
    const int memory = matrix("c", type, ir::Role::input, rows_, columns_, {vector, 4});
    ViewSpec from = tile_of(memory);
    if (random_.one_in(3)) from = tile_of(memory, random_.between(-2, 2), vector * random_.between(-2, 2));
    if (random_.one_in(4)) from.offset[0] = indices(tile_rows_, rows_.value, false).node;
    copy_piece(from, {nullptr, type, tile_shape(), input_bound(type), true});
}

/// To a tile of its own, to some rows of a larger one, or to where an earlier copy went.
void Writer::copy_piece(const ViewSpec& from, const Item& item) {
    const std::int64_t vector = least_vector(item.type);
    Copied* to = nullptr;
    for (Copied& c : copied_)
        if (!c.under_way && c.type == item.type && c.shape == item.shape && random_.one_in(2)) to = &c;
    if (to == nullptr) {
        const std::int64_t slots = random_.one_in(3) ? random_.between(1, 3) : 0;
        const std::int64_t above = random_.one_in(3) ? random_.between(1, 4) : 0;
        Shape shape = item.shape;
        shape[0] += above;
        if (slots > 0) shape = {slots, shape[0], shape[1]};
        const SharedTile tile = new_tile(item.type, shape, std::countr_zero(static_cast<std::uint64_t>(vector)));
        if (tile.shape.empty()) return;
        ViewSpec piece = whole(tile);
        if (slots > 0) piece.offset[0] = index(random_.between(0, slots - 1)), piece.extent[0] = 1;
        piece.picked[0] = slots > 0;
        piece.offset[slots > 0] = index(above), piece.extent[slots > 0] = item.shape[0];
        copied_.push_back({piece, item.type, item.shape, {}, tile.base, 0, true, false});
        to = &copied_.back();
    }
    to->per_thread = copy_shares(item.shape, vector);
    to->bound = item.bound, to->whole = item.whole, to->under_way = true;
    detail::copy_async(to->piece, from, to->per_thread, here());
}

void Writer::wait_for_copies() {
    detail::wait_copies(here());
    for (Copied& c : copied_) {
        if (!c.under_way) continue;
        c.under_way = false;
        const Shape per_thread = random_.one_in(2) ? c.per_thread : Shape{};
        pool_.add({detail::load(c.piece, nullptr, per_thread, here()), c.type, c.shape, c.bound, c.whole});
    }
}

}  // namespace tessera::test
