#include <algorithm>
#include <fmt/format.h>
#include <numeric>

#include "dsl/base/error.hpp"
#include "dsl/ir/tensor_core.hpp"
#include "dsl/ir/walk.hpp"
#include "dsl/lower/mma.hpp"
#include "dsl/lower/tile_code.hpp"

// Products whose b, or both of whose operands, tensor cores read in shared memory: instructions of four warps, started
// together and waited for at once. See tensor_core.hpp for what a lane holds of one.

namespace tessera::lower {

namespace {

/// The load that an operand is, seen with other extents.
Ref loaded(Ref operand) {
    while (!operand->as<ir::Load>()) ir::for_each_operand(*operand, [&](Ref inner) { operand = inner; });
    return operand;
}

/// How the block's groups of four warps share a product.
struct Share {
    std::int64_t along_m, along_n;  // groups
    std::int64_t rows, columns;     // of each
};
Share share_of(const ir::Node& node, int threads) {
    const auto& op = *node.as<ir::Mma>();
    const std::int64_t rows = op.a->shape[0], columns = op.b->shape[0];
    const std::int64_t groups = threads / ir::warpgroup_threads;
    const std::int64_t along_m = op.warps > 0 ? op.warps / 4 : std::gcd(rows / ir::warpgroup_rows, groups);
    const bool fits = groups > 0 && along_m > 0 && groups % along_m == 0 && rows / ir::warpgroup_rows % along_m == 0 &&
                      columns / ir::mma_columns % (groups / along_m) == 0 &&
                      columns / (groups / along_m) <= ir::most_warpgroup_columns;
    if (!fits)
        throw UsageError(
            node.place,
            fmt::format("mma of an operand in shared memory gives [{}, {}] by {} threads{}: each four warps must have "
                        "as many rows, in multiples of {}, and columns, in multiples of {} up to {}; take other "
                        "threads, or warps of MmaOptions",
                        rows, columns, threads,
                        op.warps > 0 ? fmt::format(", {} warps along M", op.warps) : std::string(), ir::warpgroup_rows,
                        ir::mma_columns, ir::most_warpgroup_columns));
    return {along_m, groups / along_m, rows / along_m, columns / (groups / along_m)};
}

void check_first_warp(const ir::WarpRole& role, const Place& place) {
    if (role.first_warp % 4 != 0)
        throw UsageError(place,
                         fmt::format("mma of an operand in shared memory in the role {}, whose first warp is {}: four "
                                     "warps that multiply begin at a multiple of four; name the role ahead of others",
                                     role.name, role.first_warp));
}

}  // namespace

void choose_engines(const ir::Program& program, const Target& target, Plan& plan) {
    if (!ir::has_warpgroup_instructions(target.sm)) return;
    const auto mark = [&](Ref operand) {
        plan.read_in_place.resize(static_cast<std::size_t>(program.arena->size()), false);
        for (;;) {
            plan.read_in_place[static_cast<std::size_t>(operand->id)] = true;
            if (operand->as<ir::Load>()) return;
            ir::for_each_operand(*operand, [&](Ref inner) { operand = inner; });
        }
    };
    ir::for_each_statement(program.body, [&](const ir::Statement& s) {
        const auto* bind = s.as<ir::Bind>();
        const auto* product = bind ? bind->value->as<ir::Mma>() : nullptr;
        if (!product || !product->shared_b || !ir::tensor_core_instruction(product->b->type)->warpgroup) return;
        mark(product->b);
        if (product->shared_a) mark(product->a);
    });
}

MmaLayouts warpgroup_mma_layouts(const Plan& plan, const ir::Node& node, int threads) {
    const auto& op = *node.as<ir::Mma>();
    const Share share = share_of(node, threads);
    const std::int64_t word = 32 / bits_of(op.a->type);
    const Mode lane_of_four{4, 1}, lane_of_eight{8, 4};
    const AxisModes m{{share.rows / ir::warpgroup_rows, 0}, {4 * share.along_m, 32}, {2, 0}, lane_of_eight};
    const AxisModes k{{op.a->shape[1] / (4 * word), 0}, lane_of_four, {word, 0}};
    const AxisModes n{{share.along_n, 128 * share.along_m}, {share.columns / ir::mma_columns, 0}, lane_of_four, {2, 0}};
    MmaLayouts result{{}, {}, canonical({{m, n}})};
    if (!plan.in_place(op.a)) result.a = canonical({{m, k}});
    return result;
}

/// Where an operand lies that is read in place.
TileCode::Matrix TileCode::matrix_of(Ref operand) {
    const ir::View& view = loaded(operand)->as<ir::Load>()->view;
    const Shape& shape = out_.shared[static_cast<std::size_t>(view.memory)].shape;
    Matrix m{view.memory, e_.i32(0), 0, shape.back()};
    std::int64_t stride = 1;
    for (int i = shape.rank() - 1; i >= 0; --i) {
        const ir::ViewAxis& axis = view.axes[static_cast<std::size_t>(i)];
        m.start = e_.add(m.start, e_.mul(e_.narrow(scalar(axis.offset)), stride));
        if (i == shape.rank() - 3) m.part = stride;
        stride *= shape[i];
    }
    return m;
}

/// Where step first + `step` of so many elements along K begins; steps from `first` on lie in one part.
Ref TileCode::step_of(const Matrix& m, std::int64_t depth, Ref first, Ref step) {
    const std::int64_t whole = m.part_depth / depth;
    const Ref column = e_.add(e_.mul(e_.mod(first, whole), depth), e_.mul(step, depth));
    return e_.add(m.start, e_.add(e_.mul(e_.div(first, whole), m.part), column));
}

void TileCode::warpgroup_mma(Ref node) {
    const auto& op = *node->as<ir::Mma>();
    const Team& team = plan_.team_of(node);
    const Share share = share_of(*node, team.threads);
    for (const ir::WarpRole& role : in_.roles)
        if (role.first_thread() == team.first_thread) check_first_warp(role, node->place);
    const bool a_in_place = plan_.in_place(op.a);
    RegisterTile a;
    if (!a_in_place) a = mma_operand(node, op.a, "a");
    const RegisterTile result = mma_result(node);
    Matrix left;
    for (Ref operand : {op.a, op.b})
        if (plan_.in_place(operand)) order(loaded(operand)->as<ir::Load>()->view);
    if (a_in_place) left = matrix_of(op.a);
    Matrix right = matrix_of(op.b);
    const Ref group = e_.div(e_.thread(), ir::warpgroup_threads);
    if (share.along_n > 1)
        right.start = e_.add(right.start, e_.mul(e_.div(group, share.along_m), share.columns * right.part_depth));
    if (a_in_place && share.along_m > 1)
        left.start = e_.add(left.start, e_.mul(e_.mod(group, share.along_m), ir::warpgroup_rows * left.part_depth));

    const std::int64_t depth = ir::tensor_core_instruction(op.b->type)->depth, steps = op.b->shape[1] / depth;
    const std::int64_t words = slots_of(result.layout), row_words = steps * 2;  // of the result; of a row of a
    const std::int64_t instructions = share.rows / ir::warpgroup_rows;
    std::vector<int> arrays{result.array};
    if (!a_in_place) arrays.push_back(a.array);
    emit(ir::MmaFence{arrays});
    // Steps of both operands, side by side in a part of each.
    std::int64_t in_part = std::min(steps, right.part_depth / depth);
    if (a_in_place) in_part = std::min(in_part, left.part_depth / depth);
    each_turn("part", steps / in_part, [&](Ref part) {
        const Ref first = e_.mul(part, in_part);
        each_turn("k", in_part, [&](Ref step) {
            each_turn("i", instructions, [&](Ref i) {
                ir::WarpgroupMma product;
                product.array = result.array;
                product.into = e_.mul(i, words / instructions);
                product.rows_apart = static_cast<int>(words / instructions / 2);
                product.columns = static_cast<int>(share.columns);
                product.b_tile = right.tile;
                product.b_offset = step_of(right, depth, first, step);
                const Ref k = e_.add(first, step);
                for (int w = 0; !a_in_place && w < 4; ++w) {
                    const Ref row = e_.add(e_.mul(i, 2), e_.i32(w % 2));
                    const Ref index = e_.add(e_.mul(row, row_words), e_.add(e_.mul(k, 2), e_.i32(w / 2)));
                    product.a.push_back(
                        e_.make(a.type, a.pack > 1 ? Shape{a.pack} : Shape{}, ir::Register{a.array, index}));
                }
                if (a_in_place) {
                    product.a_tile = left.tile;
                    product.a_offset = e_.add(step_of(left, depth, first, step),
                                              e_.mul(i, ir::warpgroup_rows * share.along_m * left.part_depth));
                }
                emit(std::move(product));
            });
        });
    });
    emit(ir::MmaWait{std::move(arrays)});
    tiles_[node->id] = result;
}

}  // namespace tessera::lower
