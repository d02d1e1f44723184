#include "dsl/lower/mma.hpp"

#include <fmt/format.h>
#include <numeric>

#include "dsl/base/error.hpp"
#include "dsl/ir/tensor_core.hpp"
#include "dsl/lower/tile_code.hpp"

// A product becomes instructions over words that already lie right: see tensor_core.hpp for what a lane holds of one.
// Of a, a thread has pairs of rows (g and g + 8 of an instruction) and, along K, pairs of words; of b, rows; of the
// result, the rows of a and, along N, the columns of lanes t of each of b's runs: twice as many as b has rows.

namespace tessera::lower {

namespace {

constexpr Mode lane_of_four{4, 1}, lane_of_eight{8, 4};

}  // namespace

MmaLayouts mma_layouts(const Plan& plan, const ir::Node& node, int threads) {
    const auto& op = *node.as<ir::Mma>();
    if (plan.in_place(op.b)) return warpgroup_mma_layouts(plan, node, threads);
    const std::int64_t rows = op.a->shape[0], columns = op.b->shape[0], depth = op.a->shape[1];
    const std::int64_t warps = threads / 32;
    const std::int64_t along_m = op.warps > 0 ? op.warps : std::gcd(rows / ir::mma_rows, warps);
    if (warps % along_m != 0 || rows / ir::mma_rows % along_m != 0 ||
        columns / ir::mma_columns % (warps / along_m) != 0)
        throw UsageError(
            node.place,
            fmt::format("mma gives [{}, {}] by {} warps, {} of them along M: each must have as many rows, in multiples "
                        "of {}, and columns, in multiples of {}; take other threads, or warps of MmaOptions",
                        rows, columns, warps, along_m, ir::mma_rows, ir::mma_columns));
    const std::int64_t along_n = warps / along_m, own_rows = rows / along_m, own_columns = columns / along_n;
    const std::int64_t row_run = std::gcd<std::int64_t>(own_rows / 8, 8);
    const std::int64_t column_run = std::gcd<std::int64_t>(own_columns / 8, 8);
    const std::int64_t depth_run = std::gcd<std::int64_t>(depth / 4, 8);
    const Mode warp_m{along_m, 32}, warp_n{along_n, 32 * along_m};
    const AxisModes m{{own_rows / (8 * row_run), 0}, warp_m, lane_of_eight, {row_run, 0}};
    const AxisModes k{{depth / (4 * depth_run), 0}, lane_of_four, {depth_run, 0}};
    const AxisModes n{{own_columns / (8 * column_run), 0}, warp_n, lane_of_eight, {column_run, 0}};
    const AxisModes results{{own_columns / (8 * column_run), 0}, warp_n, lane_of_four, {2 * column_run, 0}};
    return {canonical({{m, k}}), canonical({{n, k}}), canonical({{m, results}})};
}

namespace {

/// Slots of a thread along an axis.
std::int64_t slots_along(const Layout& layout, std::size_t axis) { return slots_of(Layout{{layout.axes[axis]}}); }

}  // namespace

/// The registers of an operand with its words along K: those that it has, if they lie so.
RegisterTile TileCode::mma_operand(Ref mma, Ref operand, const char* name) {
    const int pack = 32 / bits_of(operand->type);
    const auto lies_right = [&](const RegisterTile& tile) {
        std::int64_t stride = 1;
        for (std::size_t a = tile.layout.axes.size(); a-- > 0;)
            for (std::size_t i = tile.layout.axes[a].size(); i-- > 0;) {
                if (tile.layout.axes[a][i].thread()) continue;
                if (tile.strides[a][i] != stride) return false;
                stride *= tile.layout.axes[a][i].extent;
            }
        return tile.pack == pack;
    };
    const RegisterTile* known = tile_of(mma, operand);
    if (known && lies_right(*known)) return *known;
    require_internal(!plan_.conversion(mma, operand), "a converted operand of a product lies in no words along K");
    const RegisterTile tile = declare(plan_.layout(operand), operand->type, 1, 4, name);
    set_tile(operand, tile);
    return tile;
}

/// Registers of the result, with what is added to.
RegisterTile TileCode::mma_result(Ref node) {
    const auto& op = *node->as<ir::Mma>();
    const RegisterTile result = declare(plan_.layout(node), f32, -1, 1, "product");
    if (const RegisterTile* c = op.c->scalar() ? nullptr : tile_of(node, op.c); c && plan_.conversion(node, op.c))
        copy_registers(*c, result);
    else
        set_tile(op.c, result);
    return result;
}

void TileCode::mma(Ref node) {
    const auto& op = *node->as<ir::Mma>();
    const RegisterTile a = mma_operand(node, op.a, "a"), b = mma_operand(node, op.b, "b");
    const RegisterTile result = mma_result(node);
    const std::int64_t own_rows = slots_along(a.layout, 0), depth = slots_along(a.layout, 1) / a.pack;
    const std::int64_t own_columns = slots_along(b.layout, 0);
    const std::int64_t run = std::gcd<std::int64_t>(own_columns, 8);
    const auto word = [&](const RegisterTile& tile, Ref row, Ref at) {
        const Ref index = e_.add(e_.mul(row, depth), at);
        return e_.make(tile.type, tile.pack > 1 ? Shape{tile.pack} : Shape{}, ir::Register{tile.array, index});
    };
    // Instructions on one accumulator are far apart: they wait for each other.
    each_turn("k", depth / 2, [&](Ref k) {
        each_turn("i", own_rows / 2, [&](Ref i) {
            each_turn("j", own_columns / run, [&](Ref j) {
                each_turn("l", run, [&](Ref l) {
                    ir::MmaTile tile{result.array, {}, {}, {}};
                    for (int w = 0; w < 4; ++w) {
                        const Ref row = e_.add(e_.mul(i, 2), e_.i32(w / 2));
                        const Ref column = e_.add(e_.add(e_.mul(j, 2 * run), e_.i32(w % 2 * run)), l);
                        tile.into.push_back(e_.add(e_.mul(row, 2 * own_columns), column));
                        tile.a.push_back(
                            word(a, e_.add(e_.mul(i, 2), e_.i32(w % 2)), e_.add(e_.mul(k, 2), e_.i32(w / 2))));
                    }
                    for (int w = 0; w < 2; ++w)
                        tile.b.push_back(word(b, e_.add(e_.mul(j, run), l), e_.add(e_.mul(k, 2), e_.i32(w))));
                    emit(std::move(tile));
                });
            });
        });
    });
    tiles_[node->id] = result;
}

}  // namespace tessera::lower
