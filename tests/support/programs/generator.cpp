#include "tests/support/programs/generator.hpp"

#include <algorithm>
#include <cstring>
#include <string>

#include "dsl/front/kernel.hpp"
#include "dsl/ir/program.hpp"
#include "tests/support/inputs.hpp"
#include "tests/support/programs/arithmetic.hpp"
#include "tests/support/programs/steps.hpp"

namespace tessera::test {
namespace {

using detail::AxisSpec;
using detail::Ref;
using detail::ViewSpec;
using ir::BinaryOp;

constexpr std::int64_t largest_shared = 16 * 1024;  // bytes of all shared tiles
constexpr double variable_limit = 1e5;

Place here(std::source_location at = std::source_location::current()) { return at; }
Ref index(std::int64_t n) { return detail::constant(i64, n, here()); }
Ref times(Ref a, std::int64_t n) { return detail::binary(BinaryOp::mul, a, index(n), here()); }
Ref plus(Ref a, std::int64_t n) { return detail::binary(BinaryOp::add, a, index(n), here()); }
Ref tiles(Ref extent, std::int64_t tile) {
    return detail::binary(BinaryOp::div, plus(extent, tile - 1), index(tile), here());
}
std::int64_t tiles(std::int64_t extent, std::int64_t tile) { return (extent + tile - 1) / tile; }

/// A length along an axis: the node that says it and the number that it is in this launch.
struct Length {
    Ref node;
    std::int64_t value;
};

/// Writes one program; every block owns one tile of a matrix of `rows` × `columns`.
class Writer {
public:
    Writer(std::uint64_t seed, std::vector<std::uint64_t>& scalars, std::vector<std::vector<std::uint8_t>>& tensors)
        : random_(seed), scalars_(scalars), tensors_(tensors) {}

    void write(Kernel& kernel) {
        threads_ = random_.pick({32, 64, 128, 128, 256});
        kernel.threads(threads_);
        tile_rows_ = random_.pick<std::int64_t>({1, 2, 4, 8, 16, 3, 5});
        tile_columns_ = random_.pick<std::int64_t>({8, 16, 32, 64, 128, 256, 1, 7, 33, 96, 160});
        while (tile_rows_ * tile_columns_ > 1024) tile_rows_ = (tile_rows_ + 1) / 2;
        rows_ = length("rows", random_.between(1, 3 * tile_rows_ + 1), 1);
        columns_ =
            length("columns", random_.between(1, 3 * tile_columns_ + 2), random_.pick<std::int64_t>({1, 1, 4, 8, 16}));
        const Ref extents[] = {tiles(rows_.node, tile_rows_), tiles(columns_.node, tile_columns_)};
        detail::grid(extents, 2, block_, here());

        for (std::int64_t n = random_.between(1, 3); n > 0; --n) load_tile();
        if (random_.one_in(3)) load_line();
        steps(random_.between(4, 14), 0);
        if (random_.one_in(4)) {
            for (std::int64_t n = random_.between(1, 2); n > 0; --n) read_from_others();
            steps(random_.between(1, 5), 0);
        }
        for (std::int64_t n = random_.between(2, 4); n > 0; --n) random_.one_in(2) ? store_tile() : store_anything();
        store_anything();
    }

private:
    std::string name(const char* stem) { return stem + std::to_string(names_++); }

    /// A number fixed while recording, or one of the launch.
    Length length(const char* stem, std::int64_t value, std::int64_t multiple) {
        value = tiles(value, multiple) * multiple;
        if (random_.one_in(3)) return {index(value), value};
        scalars_.push_back(static_cast<std::uint64_t>(value));
        return {detail::scalar(name(stem).c_str(), i64, multiple, here()), value};
    }

    /// A tensor parameter with its contents; `count` elements from the base are in use.
    int tensor(const char* stem, Element type, ir::Role role, const std::vector<AxisSpec>& axes, std::int64_t count) {
        const int size = bits_of(type) / 8;
        const int align = random_.one_in(3) ? size : std::max(size, 16);
        tensors_.push_back(contents(type, role, count));
        return detail::tensor(name(stem).c_str(), type, role, axes.data(), static_cast<int>(axes.size()), align,
                              here());
    }

    std::vector<std::uint8_t> contents(Element type, ir::Role role, std::int64_t count) {
        const int size = bits_of(type) / 8;
        std::vector<std::uint8_t> bytes(static_cast<std::size_t>(count * size), 0xA5);
        if (role == ir::Role::output) return bytes;
        const auto high = static_cast<std::int64_t>(input_bound(type));
        for (std::int64_t i = 0; i < count; ++i) {
            const std::int64_t n = random_.between(is_unsigned_integer(type) ? 0 : -high, high);
            const std::uint64_t bits = convert(i64, type, static_cast<std::uint64_t>(n));
            std::memcpy(&bytes[static_cast<std::size_t>(i * size)], &bits, static_cast<std::size_t>(size));
        }
        return bytes;
    }

    static double input_bound(Element type) {
        switch (type) {
            case e4m3: return 16;
            case bf16: return 60;
            case f32:
            case i8:
            case u8: return 100;
            default: return 1000;
        }
    }

    Element random_type() { return random_.pick({f32, f32, bf16, bf16, e4m3, i32, i32, u32, i16, u16, i8, u8, i64}); }

    /// Row pitch of a matrix: dense, a fixed one, or one of the launch.
    AxisSpec row_axis(std::int64_t& pitch) {
        pitch = columns_.value;
        if (random_.one_in(2)) return {rows_.node};
        const Length l =
            length("pitch", columns_.value + random_.between(0, 9), random_.pick<std::int64_t>({1, 1, 8, 16}));
        pitch = l.value;
        return {rows_.node, l.node};
    }

    int matrix(const char* stem, Element type, ir::Role role) {
        std::int64_t pitch;
        const AxisSpec row = row_axis(pitch);
        return tensor(stem, type, role, {row, {columns_.node, index(1)}}, rows_.value * pitch);
    }

    /// The block's own tile of a matrix, moved by (down, right).
    ViewSpec tile_of(int memory, std::int64_t down = 0, std::int64_t right = 0) {
        ViewSpec v;
        v.memory = memory;
        v.rank = 2;
        v.extent[0] = tile_rows_, v.extent[1] = tile_columns_;
        v.offset[0] = times(block_[0], tile_rows_), v.offset[1] = times(block_[1], tile_columns_);
        if (down != 0) v.offset[0] = plus(v.offset[0], down);
        if (right != 0) v.offset[1] = plus(v.offset[1], right);
        return v;
    }

    Item loaded(const ViewSpec& view, Element type, const Shape& shape) {
        const Ref fill = random_.one_in(3) ? detail::constant(type, std::int64_t{7}, here()) : nullptr;
        return {detail::load(view, fill, {}, here()), type, shape, input_bound(type), true};
    }

    Shape tile_shape() const { return {tile_rows_, tile_columns_}; }

    void load_tile() {
        const Element type = random_type();
        const bool moved = random_.one_in(5);
        const int memory = matrix("x", type, ir::Role::input);
        const ViewSpec view = moved ? tile_of(memory, random_.between(-2, 2), random_.between(-3, 3)) : tile_of(memory);
        pool_.add(loaded(view, type, tile_shape()));
    }

    /// Writes the block's tile of a matrix, waits for all blocks and reads a piece that others have written to.
    void read_from_others() {
        const Item* found = pool_.find(random_, [&](const Item& i) { return i.shape == tile_shape(); });
        if (found == nullptr) return;
        Item item = *found;
        const int memory = matrix("met", item.type, ir::Role::inout);
        detail::store(tile_of(memory), item.node, here());
        detail::grid_sync(here());
        const ViewSpec view = tile_of(memory, random_.between(-2, 2), random_.between(-3, 3));
        item.node = detail::load(view, nullptr, {}, here());
        pool_.add(item);
    }

    /// A vector along the columns, as a row of the tile.
    void load_line() {
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

    void steps(std::int64_t count, int depth) {
        for (; count > 0; --count) {
            switch (random_.between(0, 16)) {
                case 0:
                case 1: step_cast(random_, pool_); break;
                case 2: step_select(random_, pool_); break;
                case 3:
                case 4: step_reduce(random_, pool_); break;
                case 5: step_reshape(random_, pool_); break;
                case 6: step_permute(random_, pool_); break;
                case 7:
                    if (threads_ == 32 && random_.one_in(2))
                        step_top_k(random_, pool_);
                    else
                        step_broadcast(random_, pool_);
                    break;
                case 8: random_.one_in(2) ? step_coordinate(random_, pool_) : step_bitcast(random_, pool_); break;
                case 9: random_.one_in(3) ? reread_shared() : through_shared(); break;
                case 10: through_shared(); break;
                case 11:
                    if (depth >= 2)
                        step_arithmetic(random_, pool_);
                    else
                        random_.one_in(3) ? (random_.one_in(4) ? by_warps() : condition(depth)) : loop(depth);
                    break;
                case 12: step_lookup(random_, pool_); break;
                default: step_arithmetic(random_, pool_); break;
            }
        }
    }

    struct SharedTile {
        int id;
        Element type;
        Shape shape;
        bool filled;  // by a store that surely has run
    };

    /// Writes a value to a shared tile, old or new, and reads all or a part of it back.
    void through_shared() {
        const Item* found = pool_.find(random_, [](const Item& i) { return i.shape.rank() <= 3; });
        if (found == nullptr) return;
        const Item item = *found;
        SharedTile* tile = nullptr;
        for (SharedTile& t : shared_)
            if (t.type == item.type && t.shape == item.shape && random_.one_in(2)) tile = &t;
        if (tile == nullptr) tile = new_shared(item);
        if (tile == nullptr) return;

        ViewSpec v = whole(*tile);
        detail::store(v, item.node, here());
        Item back = item;
        if (is_integer(item.type) && bits_of(item.type) >= 32 && random_.one_in(2)) {
            const Item* more =
                pool_.find(random_, [&](const Item& i) { return i.type == item.type && i.shape == item.shape; });
            for (int n = 0; n < 2; ++n) detail::atomic_add(v, n == 0 ? more->node : item.node, here());
            back.bound = largest(item.type) + 1;
        }
        if (random_.one_in(3))
            for (int a = 0; a < v.rank; ++a) {
                const std::int64_t from = random_.between(0, item.shape[a] - 1);
                v.offset[a] = index(from);
                v.extent[a] = back.shape[a] = random_.between(1, item.shape[a] - from);
            }
        back.node = detail::load(v, nullptr, {}, here());
        pool_.add(back);
    }

    static ViewSpec whole(const SharedTile& tile) {
        ViewSpec v;
        v.space = ir::Space::shared;
        v.memory = tile.id;
        v.rank = tile.shape.rank();
        for (int a = 0; a < v.rank; ++a) v.extent[a] = tile.shape[a], v.offset[a] = index(0);
        return v;
    }

    /// Reads once more what a tile holds by now. Whole numbers only: later turns of a loop may store larger ones.
    void reread_shared() {
        for (const SharedTile& t : shared_) {
            if (!t.filled || !is_integer(t.type) || random_.one_in(2)) continue;
            return pool_.add({detail::load(whole(t), nullptr, {}, here()), t.type, t.shape, largest(t.type) + 1, true});
        }
    }

    SharedTile* new_shared(const Item& item) {
        const std::int64_t count = item.shape.count(), bytes = count * (bits_of(item.type) / 8);
        if (shared_bytes_ + bytes > largest_shared) return nullptr;
        shared_bytes_ += bytes;
        int bits = 0, base = 0, shift = 0;
        if (random_.one_in(2)) {
            bits = static_cast<int>(random_.between(1, 3));
            base = static_cast<int>(random_.between(0, 3));
            shift = bits + static_cast<int>(random_.between(0, 3));
            if (count % (std::int64_t{1} << (bits + base)) != 0) bits = base = shift = 0;
        }
        const int id = detail::shared_tile(name("t").c_str(), item.type, item.shape, bits, base, shift, here());
        shared_.push_back({id, item.type, item.shape, true});
        return &shared_.back();
    }

    /// A serial loop that carries one variable; the turns read successive tiles of a matrix.
    void loop(int depth) {
        const Item* found = pool_.find(random_, [](const Item& i) { return has_arithmetic(i.type); });
        if (found == nullptr) return;
        const Item init = clamped(*found, variable_limit);
        const int variable = detail::variable(init.node, here());
        const std::size_t outside = pool_.size(), outside_shared = shared_.size();
        const Length turns = length("turns", random_.between(0, 3), 1);

        const Element type = random_type();
        const int memory = matrix("y", type, ir::Role::input);

        const Ref i = detail::open_serial(index(0), turns.node, index(1), here());
        const Item now{detail::variable_read(variable, here()), init.type, init.shape,
                       is_integer(init.type) ? largest(init.type) + 1 : variable_limit, init.whole};
        pool_.add(now);
        ViewSpec view = tile_of(memory);
        view.offset[1] = times(i, tile_columns_);
        pool_.add(loaded(view, type, tile_shape()));
        steps(random_.between(1, 5), depth + 1);
        const Item* next = pool_.find(random_, [&](const Item& v) {
            return v.type == init.type && v.shape == init.shape && (v.whole || !init.whole) && v.node != now.node;
        });
        if (next != nullptr) detail::assign(variable, clamped(*next, variable_limit).node, here());
        detail::close_scope();

        pool_.shrink(outside);
        for (std::size_t t = outside_shared; t < shared_.size(); ++t) shared_[t].filled = false;
        pool_.add({detail::variable_read(variable, here()), now.type, now.shape, now.bound, now.whole});
    }

    /// |v| by two ways, of which each warp takes the one that fits what it holds.
    void by_warps() {
        const Item* found = pool_.find(random_, [](const Item& i) { return has_arithmetic(i.type); });
        if (found == nullptr) return;
        const Item v = clamped(*found, variable_limit);
        const int variable = detail::variable(v.node, here());
        const Ref zero = detail::constant(v.type, std::int64_t{0}, here());
        const Ref all =
            detail::warp_vote(ir::ReduceOp::min, detail::binary(ir::BinaryOp::gt, v.node, zero, here()), here());
        detail::open_when(all, here());
        detail::assign(variable, v.node, here());
        detail::close_scope();
        detail::open_when(detail::unary(ir::UnaryOp::bit_not, all, here()), here());
        detail::assign(variable, detail::unary(ir::UnaryOp::abs, v.node, here()), here());
        detail::close_scope();
        const double bound = is_integer(v.type) ? largest(v.type) + 1 : variable_limit;
        pool_.add({detail::variable_read(variable, here()), v.type, v.shape, bound, v.whole});
    }

    /// One or both cases of a condition on some tile's elements or on the block's index; a variable carries what
    /// changes.
    void condition(int depth) {
        const Item* found = pool_.find(random_, [](const Item& i) { return has_arithmetic(i.type); });
        if (found == nullptr) return;
        const Item init = clamped(*found, variable_limit);
        const int variable = detail::variable(init.node, here());
        const std::size_t outside = pool_.size(), outside_shared = shared_.size();
        Ref truth = detail::binary(ir::BinaryOp::gt, block_[random_.between(0, 1)], index(0), here());
        if (random_.one_in(2)) {
            const Ref zero = detail::constant(found->type, std::int64_t{0}, here());
            const Ref mask = detail::binary(ir::BinaryOp::gt, found->node, zero, here());
            truth = detail::reduce_all(random_.pick({ir::ReduceOp::max, ir::ReduceOp::min}), mask, here());
        }
        for (int last = static_cast<int>(random_.between(0, 1)), i = 0; i <= last; ++i) {
            detail::open_when(i == 0 ? truth : detail::unary(ir::UnaryOp::bit_not, truth, here()), here());
            pool_.add({detail::variable_read(variable, here()), init.type, init.shape,
                       is_integer(init.type) ? largest(init.type) + 1 : variable_limit, init.whole});
            steps(random_.between(1, 4), depth + 1);
            const Item* next = pool_.find(random_, [&](const Item& v) {
                return v.type == init.type && v.shape == init.shape && (v.whole || !init.whole);
            });
            if (next != nullptr) detail::assign(variable, clamped(*next, variable_limit).node, here());
            detail::close_scope();
            pool_.shrink(outside);
            for (std::size_t t = outside_shared; t < shared_.size(); ++t) shared_[t].filled = false;
        }
        const double bound = is_integer(init.type) ? largest(init.type) + 1 : variable_limit;
        pool_.add({detail::variable_read(variable, here()), init.type, init.shape, bound, init.whole});
    }

    /// Stores a value that has the tile's shape at the block's place, edges cut.
    void store_tile() {
        if (random_.one_in(4)) report_some();
        const Item* found = pool_.find(random_, [&](const Item& i) { return i.shape == tile_shape(); });
        if (found == nullptr) return store_anything();
        if (found->type == u8 && random_.one_in(2)) return store_packed(*found);
        detail::store(tile_of(matrix("out", found->type, ir::Role::output)), found->node, here());
    }

    /// Reports what a comparison finds in a matrix; mostly little or nothing.
    void report_some() {
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
    void store_packed(const Item& item) {
        const std::int64_t run = tiles(rows_.value, 4) * 16;
        const Ref stride = times(tiles(rows_.node, 4), 16);
        const int memory =
            tensor("packed", u8, ir::Role::output, {{rows_.node, index(4)}, {columns_.node, stride, 4, 1}},
                   run * tiles(columns_.value, 4));
        detail::store(tile_of(memory), item.node, here());
    }

    /// Stores any value into an output with one place for each block.
    void store_anything() {
        const Item item = *pool_.find(random_, [](const Item&) { return true; });
        const std::int64_t blocks = tiles(rows_.value, tile_rows_) * tiles(columns_.value, tile_columns_);
        std::vector<AxisSpec> axes = {{tiles(rows_.node, tile_rows_)}, {tiles(columns_.node, tile_columns_)}};
        ViewSpec v;
        v.rank = 2 + item.shape.rank();
        for (int a = 0; a < 2; ++a) v.offset[a] = block_[a], v.extent[a] = 1, v.picked[a] = true;
        for (int a = 0; a < item.shape.rank(); ++a) {
            axes.push_back({index(item.shape[a])});
            v.offset[2 + a] = index(0), v.extent[2 + a] = item.shape[a];
        }
        v.memory = tensor("all", item.type, ir::Role::output, axes, blocks * item.shape.count());
        detail::store(v, item.node, here());
    }

    Random random_;
    std::vector<std::uint64_t>& scalars_;
    std::vector<std::vector<std::uint8_t>>& tensors_;
    Pool pool_;
    std::vector<SharedTile> shared_;
    std::int64_t shared_bytes_ = 0, tile_rows_ = 1, tile_columns_ = 1;
    Length rows_{}, columns_{};
    Ref block_[2] = {};
    int names_ = 0, threads_ = 128;
};

}  // namespace

ProgramCase random_program(std::uint64_t seed) {
    std::vector<std::uint64_t> scalars;
    std::vector<std::vector<std::uint8_t>> tensors;
    Writer writer(seed, scalars, tensors);
    const std::string name = "random" + std::to_string(seed);
    Program program = record(name.c_str(), [&](Kernel& k) { writer.write(k); });
    return {std::move(program), std::move(scalars), std::move(tensors)};
}

}  // namespace tessera::test
