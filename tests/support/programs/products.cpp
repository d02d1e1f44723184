#include <numeric>

#include "dsl/front/tensor_core.hpp"
#include "tests/support/programs/steps.hpp"
#include "tests/support/programs/writer.hpp"

// Products on tensor cores. Operands are whole numbers so small that every sum is exact in every order, e4m3's too,
// whose sums keep 13 bits on SM90.

namespace tessera::test {

using ir::BinaryOp;
using ir::Copies;

namespace {

constexpr double summand_bound = 1000;
constexpr std::int64_t group = 4;  // warps that read shared memory together

double product_bound(Element type, std::int64_t depth) { return static_cast<double>(depth) * (type == e4m3 ? 4 : 64); }

detail::Ref clamped_to(detail::Ref v, double limit) {
    const detail::Ref high = detail::constant(v->type, limit, here()), low = detail::constant(v->type, -limit, here());
    return detail::binary(BinaryOp::max, detail::binary(BinaryOp::min, v, high, here()), low, here());
}

/// [parts, rows, width] as [rows, parts · width].
detail::Ref joined(detail::Ref parts) {
    constexpr int order[] = {1, 0, 2};
    return detail::merge(detail::permute(parts, order, 3, here()), 1, here());
}

}  // namespace

std::int64_t Writer::instruction_depth(Element type) { return type == tf32 ? 8 : type == e4m3 ? 32 : 16; }

bool Writer::choose_product(Product& p, bool in_place) {
    const std::int64_t units = threads_ / 32 / (in_place ? group : 1), rows = in_place ? 64 : 16;
    if (units == 0 || first_warp_ % (in_place ? group : 1) != 0) return false;
    p.type = random_.pick({bf16, bf16, f16, tf32, e4m3});
    const std::int64_t along_m = std::int64_t{1} << random_.between(0, std::countr_zero(static_cast<unsigned>(units)));
    p.rows = rows * along_m * random_.pick({1, 1, 2});
    p.columns = 8 * (units / along_m) * random_.pick({1, 1, 2, 3, 4, 6});
    p.depth = instruction_depth(p.type) * random_.pick({1, 1, 2, 3, 4});
    const bool natural = std::gcd(p.rows / rows, units) == along_m;
    p.warps = natural && random_.one_in(2) ? 0 : static_cast<int>(along_m * (in_place ? group : 1));
    return true;
}

/// A piece of a matrix of its own, whose edges lie anywhere.
detail::Ref Writer::loaded_operand(Element type, std::int64_t rows, std::int64_t columns) {
    const std::int64_t known = random_.pick<std::int64_t>({1, 4, 8, 16});
    const Length height = length("rows", random_.between(1, 2 * rows), 1);
    const Length width = length("columns", random_.between(1, columns + 8), known);
    const int memory = matrix("m", type, ir::Role::input, height, width, {1, 1, operand_bound(type)});
    const Ref row = random_.one_in(2) ? index(random_.between(-2, 4)) : times(block_[0], rows);
    const Ref column = random_.one_in(2) ? index(0) : plus(times(block_[1], known), -known);
    return detail::load(piece_of(memory, row, column, rows, columns), nullptr, {}, here(), 0, random_load_cache());
}

detail::Ref Writer::operand(const Product& p, std::int64_t rows) {
    const Shape shape{rows, p.depth};
    switch (random_.between(0, 6)) {
        case 0: {  // computed
            const Ref x = loaded_operand(f32, rows, p.depth);
            return detail::cast(p.type, clamped_to(detail::binary(BinaryOp::add, x, x, here()), operand_bound(p.type)),
                                here());
        }
        case 1: {  // lies otherwise
            constexpr int order[] = {1, 0};
            return detail::permute(loaded_operand(p.type, p.depth, rows), order, 2, here());
        }
        case 2: {  // through shared memory
            const SharedTile tile = new_tile(p.type, shape);
            if (tile.shape.empty()) break;
            detail::store(whole(tile), loaded_operand(p.type, rows, p.depth), here());
            return detail::load(whole(tile), nullptr, {}, here());
        }
        case 3: {  // copied
            const SharedTile tile = new_tile(p.type, shape, 2);
            if (tile.shape.empty() || in_role_) break;
            fill_part(whole(tile), p.type, rows, p.depth);
            wait_for_copies();
            return detail::load(whole(tile), nullptr, {}, here());
        }
        case 4: {  // whatever is there
            const Item* found = pool_.find(random_, [&](const Item& i) {
                return i.shape == shape && i.whole && (i.type == f32 || i.type == bf16);
            });
            if (found == nullptr) break;
            const Ref small = clamped_to(found->node, operand_bound(p.type));
            if (p.type == small->type) return small;
            const Ref wide = small->type == f32 ? small : detail::cast(f32, small, here());
            return detail::cast(p.type, wide, here());
        }
        default: break;
    }
    return loaded_operand(p.type, rows, p.depth);
}

Item Writer::summand(const Product& p) {
    const Shape shape{p.rows, p.columns};
    Item c{nullptr, f32, shape, summand_bound, true};
    const Item* known =
        pool_.find(random_, [&](const Item& i) { return i.type == f32 && i.whole && i.shape == shape; });
    if (known != nullptr && random_.one_in(2)) return clamped(*known, summand_bound);
    if (random_.one_in(2)) {
        const Ref some = loaded_operand(f32, random_.one_in(3) ? 1 : p.rows, p.columns);
        c.node = some->shape == shape ? some : detail::broadcast_to(some, shape, here());
        return c;
    }
    c.node = detail::broadcast_to(detail::constant(f32, 0.0, here()), shape, here());
    return c;
}

void Writer::add_product(const Product& p, Ref node, double bound) {
    pool_.add({node, f32, {p.rows, p.columns}, bound, true});
}

/// One product, a loop of them, or a chain.
void Writer::product(int depth) {
    Product p{};
    if (!choose_product(p, false)) return;
    const Item c = summand(p);
    if (depth < 2 && random_.one_in(3)) {
        const int variable = detail::variable(c.node, here());
        const Length turns = length("turns", random_.between(0, 3), 1);
        detail::open_serial(index(0), turns.node, index(1), here());
        inside_scope([&] {
            const Ref a = operand(p, p.rows), b = operand(p, p.columns);
            detail::assign(variable, detail::mma({a}, {b}, detail::variable_read(variable, here()), p.warps, here()),
                           here());
        });
        detail::close_scope();
        return add_product(p, detail::variable_read(variable, here()), c.bound + 3 * product_bound(p.type, p.depth));
    }
    const Ref a = operand(p, p.rows), b = p.rows == p.columns && random_.one_in(2) ? a : operand(p, p.columns);
    const Ref first = detail::mma({a}, {b}, c.node, p.warps, here());
    add_product(p, first, c.bound + product_bound(p.type, p.depth));
    if (random_.one_in(3)) {  // an operand once more, of another product
        const Item d = summand(p);
        add_product(p, detail::mma({a}, {operand(p, p.columns)}, d.node, p.warps, here()),
                    d.bound + product_bound(p.type, p.depth));
    }
    if (p.columns % instruction_depth(p.type) != 0 || p.columns > 128 || random_.one_in(2)) return;
    Product next = p;
    next.depth = p.columns;
    const Ref left = detail::cast(p.type, clamped_to(first, operand_bound(p.type)), here());
    const Item d = summand(next);
    add_product(next, detail::mma({left}, {operand(next, next.columns)}, d.node, next.warps, here()),
                d.bound + product_bound(next.type, next.depth));
}

/// Elements of a row of 32, 64 or 128 bytes that divides K.
std::int64_t Writer::random_width(const Product& p) {
    for (;;) {
        const std::int64_t width = random_.pick({32, 64, 128}) * 8 / bits_of(p.type);
        if (p.depth % width == 0) return width;
    }
}

Writer::SharedTile Writer::operand_memory(Element type, std::int64_t rows, std::int64_t parts, std::int64_t width,
                                          int stages) {
    Shape shape{rows, width};
    if (parts > 1 || stages > 0 || random_.one_in(2)) shape = {parts, rows, width};
    if (stages > 0) shape = {stages, parts, rows, width};
    const auto bytes = static_cast<unsigned>(width * bits_of(type) / 8);
    const auto run = static_cast<unsigned>(128 / bits_of(type));
    return declared(type, shape, {std::countr_zero(bytes) - 4, std::countr_zero(run), 3});
}

/// Copies, or loads and stores, a piece of a matrix of its own.
void Writer::fill_part(const ViewSpec& part, Element type, std::int64_t rows, std::int64_t width) {
    if (in_role_ || random_.one_in(2)) return detail::store(part, loaded_operand(type, rows, width), here());
    const std::int64_t vector = least_vector(type);
    const Length height = length("rows", random_.between(1, 2 * rows), 1);
    const Length across = length("columns", random_.between(1, width + 8), 4);
    const int memory = matrix("m", type, ir::Role::input, height, across, {vector, 4, operand_bound(type)});
    const ViewSpec from = piece_of(memory, index(random_.between(-2, 4)), index(0), rows, width);
    detail::copy_async(part, from, copy_shares({rows, width}, vector), here());
}

/// A piece of a new shared tile that tensor cores can read.
detail::ViewSpec Writer::operand_in_place(const Product& p, std::int64_t rows) {
    const std::int64_t width = random_width(p), parts = p.depth / width, above = random_.one_in(3) ? 8 : 0;
    const SharedTile tile = operand_memory(p.type, rows + above, parts, width, 0);
    if (tile.shape.empty()) return {};
    ViewSpec piece = whole(tile);
    piece.offset[piece.rank - 2] = index(above), piece.extent[piece.rank - 2] = rows;
    for (std::int64_t i = 0; i < parts; ++i) {
        ViewSpec part = piece;
        if (part.rank == 3) part.offset[0] = index(i), part.extent[0] = 1, part.picked[0] = true;
        fill_part(part, p.type, rows, width);
    }
    if (!in_role_) wait_for_copies();
    return piece;
}

/// Products that read shared memory; what was read is then sometimes written over for another.
void Writer::product_in_place() {
    Product p{};
    if (!choose_product(p, true)) return;
    const ViewSpec right = operand_in_place(p, p.columns);
    if (right.rank == 0) return;
    const bool both = random_.one_in(3);
    ViewSpec left;
    Ref a = nullptr;
    if (both) left = operand_in_place(p, p.rows);
    if (left.rank == 0) a = operand(p, p.rows);
    const auto multiply = [&] {
        const Item c = summand(p);
        const Ref d = detail::mma({a, a != nullptr ? nullptr : &left}, {nullptr, &right}, c.node, p.warps, here());
        add_product(p, d, c.bound + product_bound(p.type, p.depth));
    };
    multiply();
    if (random_.one_in(2)) steps(random_.between(1, 2), 2);
    if (random_.one_in(2)) {
        ViewSpec part = right;
        if (part.rank == 3) part.extent[0] = 1, part.picked[0] = true;
        fill_part(part, p.type, p.columns, part.extent[part.rank - 1]);
        if (!in_role_) wait_for_copies();
        multiply();
    }
}

/// Operands come by copies that are under way while others are multiplied.
void Writer::product_pipeline() {
    Product p{};
    const bool in_place = threads_ >= 32 * group && random_.one_in(2);
    if (!choose_product(p, in_place)) return;
    constexpr std::int64_t longest_side = 256;  // of a box
    const bool boxes = std::max(p.rows, p.columns) <= longest_side && random_.one_in(2);
    const Copies engine = boxes ? Copies::tensor : Copies::vectors;
    const int stages = random_.pick({2, 3, 4});
    const Length turns = length("turns", random_.between(0, 5), 1);
    struct Side {
        int memory;
        std::int64_t rows, width;
        Ref row;
        SharedTile tile;
    };
    std::vector<Side> sides;
    const auto add_side = [&](std::int64_t rows) {
        const std::int64_t unit = 128 / bits_of(p.type), width = random_width(p);
        const SharedTile tile = operand_memory(p.type, rows, p.depth / width, width, stages);
        if (tile.shape.empty()) return false;
        const Length height = length("rows", random_.between(1, 2 * rows), 1);
        const Length across = length("columns", random_.between(1, (turns.value + 1) * p.depth), unit);
        const int memory = matrix("m", p.type, ir::Role::input, height, across, {unit, 16, operand_bound(p.type)});
        sides.push_back({memory, rows, width, random_.one_in(2) ? index(-1) : times(block_[0], rows), tile});
        return true;
    };
    if (!add_side(p.columns)) return;
    const bool both = random_.one_in(2) && add_side(p.rows);

    const Item c = summand(p);
    const int variable = detail::variable(c.node, here());
    auto issue = [&](Ref i, Ref slot) {
        for (const Side& s : sides)
            for (std::int64_t part = 0; part < p.depth / s.width; ++part) {
                ViewSpec to = slot_of(s.tile, slot);
                to.offset[1] = index(part), to.extent[1] = 1, to.picked[1] = true;
                const Ref column = plus(times(i, p.depth), part * s.width);
                detail::copy_async(to, piece_of(s.memory, s.row, column, s.rows, s.width), {}, here());
            }
    };
    auto body = [&](Ref, Ref slot) {
        inside_scope([&] {
            const ViewSpec right = slot_of(sides[0].tile, slot);
            const ViewSpec left = both ? slot_of(sides[1].tile, slot) : ViewSpec{};
            Ref a = nullptr, b = nullptr;
            if (!in_place) b = joined(detail::load(right, nullptr, {}, here()));
            if (!both) a = operand(p, p.rows);
            if (both && (!in_place || random_.one_in(3))) a = joined(detail::load(left, nullptr, {}, here()));
            const Ref before = detail::variable_read(variable, here());
            const Ref after = detail::mma({a, a != nullptr ? nullptr : &left}, {b, b != nullptr ? nullptr : &right},
                                          before, p.warps, here());
            if (random_.one_in(2)) steps(random_.between(1, 2), 2);
            detail::assign(variable, after, here());
        });
    };
    using Function = detail::FunctionRef<Ref, Ref>;
    detail::pipelined(turns.node, stages, engine, Function(issue), Function(body), here());
    add_product(p, detail::variable_read(variable, here()), c.bound + 5 * product_bound(p.type, p.depth));
}

}  // namespace tessera::test
