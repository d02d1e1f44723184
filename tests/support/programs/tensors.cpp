#include <cstring>

#include "tests/support/programs/arithmetic.hpp"
#include "tests/support/programs/writer.hpp"

// Parameters of a random program, pieces of them, and what is loaded and stored there.

namespace tessera::test {

using detail::AxisSpec;

/// A number fixed while recording, or one of the launch.
Length Writer::length(const char* stem, std::int64_t value, std::int64_t multiple) {
    value = tiles(value, multiple) * multiple;
    if (random_.one_in(3)) return {index(value), value, even_part(value)};
    scalars_.push_back(static_cast<std::uint64_t>(value));
    return {detail::scalar(name(stem).c_str(), i64, multiple, here()), value, even_part(multiple)};
}

/// A tensor parameter with its contents; `count` elements from the base are in use.
int Writer::tensor(const char* stem, Element type, ir::Role role, const std::vector<AxisSpec>& axes, std::int64_t count,
                   const Facts& facts) {
    const int size = bits_of(type) / 8;
    const int align = std::max(random_.one_in(3) ? size : std::max(size, 16), facts.align);
    tensors_.push_back(contents(type, role, count, facts.bound > 0 ? facts.bound : input_bound(type)));
    return detail::tensor(name(stem).c_str(), type, role, axes.data(), static_cast<int>(axes.size()), align, here());
}

std::vector<std::uint8_t> Writer::contents(Element type, ir::Role role, std::int64_t count, double bound) {
    const int size = bits_of(type) / 8;
    std::vector<std::uint8_t> bytes(static_cast<std::size_t>(count * size), 0xA5);
    if (role == ir::Role::output) return bytes;
    const auto high = static_cast<std::int64_t>(bound);
    for (std::int64_t i = 0; i < count; ++i) {
        const std::int64_t n = random_.between(is_unsigned_integer(type) ? 0 : -high, high);
        const std::uint64_t bits = convert(i64, type, static_cast<std::uint64_t>(n));
        std::memcpy(&bytes[static_cast<std::size_t>(i * size)], &bits, static_cast<std::size_t>(size));
    }
    return bytes;
}

double Writer::input_bound(Element type) {
    switch (type) {
        case e4m3: return 16;
        case bf16: return 60;
        case f16:
        case tf32: return 8;
        case f32:
        case i8:
        case u8: return 100;
        default: return 1000;
    }
}

Element Writer::random_type() {
    return random_.pick({f32, f32, bf16, bf16, e4m3, i32, i32, u32, i16, u16, i8, u8, i64});
}

/// Rows lie dense, or at a distance that is fixed or of the launch.
int Writer::matrix(const char* stem, Element type, ir::Role role, const Length& rows, const Length& columns,
                   const Facts& facts) {
    AxisSpec row{rows.node};
    std::int64_t pitch = columns.value;
    if (columns.multiple < facts.multiple || random_.one_in(2)) {
        const auto known = std::max(facts.multiple, random_.pick<std::int64_t>({1, 1, 8, 16}));
        const Length l = length("pitch", pitch + random_.between(0, 9), known);
        row.stride = l.node, pitch = l.value;
    }
    return tensor(stem, type, role, {row, {columns.node, index(1)}}, rows.value * pitch, facts);
}

/// The block's own tile of a matrix, moved by (down, right).
detail::ViewSpec Writer::tile_of(int memory, std::int64_t down, std::int64_t right) {
    return piece_of(memory, plus(times(block_[0], tile_rows_), down), plus(times(block_[1], tile_columns_), right),
                    tile_rows_, tile_columns_);
}

detail::ViewSpec Writer::piece_of(int memory, Ref row, Ref column, std::int64_t rows, std::int64_t columns) {
    ViewSpec v;
    v.memory = memory;
    v.rank = 2;
    v.extent[0] = rows, v.extent[1] = columns;
    v.offset[0] = row, v.offset[1] = column;
    return v;
}

Item Writer::loaded(const ViewSpec& view, Element type, const Shape& shape) {
    const Ref fill = random_.one_in(3) ? detail::constant(type, std::int64_t{7}, here()) : nullptr;
    return {detail::load(view, fill, {}, here(), 0, random_load_cache()), type, shape, input_bound(type), true};
}

void Writer::load_tile() {
    const Element type = random_type();
    const bool moved = random_.one_in(5);
    const int memory = matrix("x", type, ir::Role::input);
    const ViewSpec view = moved ? tile_of(memory, random_.between(-2, 2), random_.between(-3, 3)) : tile_of(memory);
    pool_.add(loaded(view, type, tile_shape()));
}

/// A vector along the columns, as a row of the tile.
void Writer::load_line() {
    const Element type = random_type();
    ViewSpec v;
    v.memory = tensor("w", type, ir::Role::input, {{columns_.node}}, columns_.value);
    v.rank = 1;
    v.extent[0] = tile_columns_;
    v.offset[0] = times(block_[1], tile_columns_);
    Item line = loaded(v, type, {tile_columns_});
    line.node = detail::unsqueeze(line.node, 0, here());
    line.shape = {1, tile_columns_};
    pool_.add(line);
}

/// Stores a value that has the tile's shape at the block's place, edges cut.
void Writer::store_tile() {
    if (random_.one_in(4)) report_some();
    const Item* found = pool_.find(random_, [&](const Item& i) { return i.shape == tile_shape(); });
    if (found == nullptr) return store_anything();
    if (found->type == u8 && random_.one_in(2)) return store_packed(*found);
    detail::store(tile_of(matrix("out", found->type, ir::Role::output)), found->node, here(), random_cache());
}

/// Reports what a comparison finds in a matrix; mostly little or nothing.
void Writer::report_some() {
    const Item* found =
        pool_.find(random_, [&](const Item& i) { return i.shape == tile_shape() && has_arithmetic(i.type); });
    if (found == nullptr) return;
    const Item item = *found;
    const double bound = random_.one_in(3) ? item.bound / 2 : item.bound;
    const Ref limit = detail::constant(item.type, static_cast<std::int64_t>(std::min(bound, 100.0)), here());
    const Ref bad = detail::binary(ir::BinaryOp::gt, item.node, limit, here());
    const Item* told = pool_.find(random_, [&](const Item& i) { return i.shape == tile_shape(); });
    detail::report(bad, "a value is small", tile_of(matrix("seen", i32, ir::Role::input)), told->node, here());
}

/// As packed scales lie: four neighbours of a row in a word, words along the columns of the matrix.
void Writer::store_packed(const Item& item) {
    const std::int64_t run = tiles(rows_.value, 4) * 16;
    const Ref stride = times(tiles(rows_.node, 4), 16);
    const int memory = tensor("packed", u8, ir::Role::output, {{rows_.node, index(4)}, {columns_.node, stride, 4, 1}},
                              run * tiles(columns_.value, 4));
    detail::store(tile_of(memory), item.node, here());
}

/// Stores any value into an output with one place for each block.
void Writer::store_anything() {
    store_each(*pool_.find(random_, [](const Item&) { return true; }));
}

void Writer::store_each(const Item& value, Ref item, std::int64_t most) {
    const std::int64_t blocks = tiles(rows_.value, tile_rows_) * tiles(columns_.value, tile_columns_);
    std::vector<AxisSpec> axes = {{tiles(rows_.node, tile_rows_)}, {tiles(columns_.node, tile_columns_)}};
    std::vector<Ref> picks = {block_[0], block_[1]};
    if (item != nullptr) axes.push_back({index(most)}), picks.push_back(item);
    ViewSpec v;
    for (Ref pick : picks) v.offset[v.rank] = pick, v.extent[v.rank] = 1, v.picked[v.rank++] = true;
    for (int a = 0; a < value.shape.rank(); ++a) {
        axes.push_back({index(value.shape[a])});
        v.offset[v.rank] = index(0), v.extent[v.rank++] = value.shape[a];
    }
    v.memory = tensor("all", value.type, ir::Role::output, axes, blocks * most * value.shape.count());
    detail::store(v, value.node, here(), random_cache());
}

}  // namespace tessera::test
