#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <string>
#include <vector>

#include "dsl/front/kernel.hpp"
#include "dsl/ir/program.hpp"
#include "tests/support/programs/pool.hpp"

namespace tessera::test {

inline Place here(std::source_location at = std::source_location::current()) { return at; }
inline detail::Ref index(std::int64_t n) { return detail::constant(i64, n, here()); }
inline detail::Ref times(detail::Ref a, std::int64_t n) {
    return detail::binary(ir::BinaryOp::mul, a, index(n), here());
}
inline detail::Ref plus(detail::Ref a, std::int64_t n) {
    return n == 0 ? a : detail::binary(ir::BinaryOp::add, a, index(n), here());
}
inline std::int64_t tiles(std::int64_t extent, std::int64_t tile) { return (extent + tile - 1) / tile; }
inline detail::Ref tiles(detail::Ref extent, std::int64_t tile) {
    return detail::binary(ir::BinaryOp::div, plus(extent, tile - 1), index(tile), here());
}
constexpr double variable_limit = 1e5;  // of what loops carry
/// Elements of a copy's shortest vector.
inline std::int64_t least_vector(Element type) { return std::max(1, 32 / bits_of(type)); }

/// A length along an axis: the node that says it and the number that it is in this launch, a multiple of `multiple`,
/// which the program may count on.
struct Length {
    detail::Ref node;
    std::int64_t value, multiple;
};

/// Writes one program; every block owns one tile of a matrix of `rows` × `columns`. What it holds is what is in scope
/// at the place that is being written.
class Writer {
public:
    Writer(std::uint64_t seed, std::vector<std::uint64_t>& scalars, std::vector<std::vector<std::uint8_t>>& tensors)
        : random_(seed), scalars_(scalars), tensors_(tensors) {}

    void write(Kernel& kernel);

private:
    using Ref = detail::Ref;
    using ViewSpec = detail::ViewSpec;

    /// How a tensor is declared, beyond its extents.
    struct Facts {
        std::int64_t multiple = 1;  // elements that rows lie apart, at least known so
        int align = 0;              // bytes, at least
        double bound = 0;           // of its contents; 0: input_bound
    };
    /// A tile in shared memory.
    struct SharedTile {
        int id;
        Element type;
        Shape shape;
        bool filled;    // by a store that surely has run
        int base = 30;  // runs of 2^base elements stay together
    };
    /// Copies to a tile that are under way, or were.
    struct Copied {
        ViewSpec piece;
        Element type;
        Shape shape, per_thread;
        int base;  // runs of 2^base elements of the tile stay together
        double bound;
        bool whole, under_way;
    };
    /// Pieces of a tensor, one a turn.
    struct Stream {
        int memory;
        Element type;
        Shape piece;
        std::function<ViewSpec(Ref turn)> at;
        SharedTile tile;  // its first axis is the slot
        Shape per_thread;
    };
    /// A variable that adds up the pieces of a stream.
    struct Sum {
        int variable;
        Element type;
    };
    /// What a product asks of its operands.
    struct Product {
        Element type;
        std::int64_t rows, columns, depth;  // M, N, K
        int warps;                          // of MmaOptions
    };

    // generator.cpp: control flow
    void write_tiles();
    void steps(std::int64_t count, int depth);
    void loop(int depth);
    void by_warps();
    void condition(int depth);
    /// Runs `body` in the scope that has just been opened; nothing of it stays in sight.
    void inside_scope(const std::function<void()>& body);
    void read_from_others();

    // warps.cpp: warps by themselves
    void each_warp();

    // tensors.cpp: parameters, their pieces, loads and stores
    std::string name(const char* stem) { return stem + std::to_string(names_++); }
    Length length(const char* stem, std::int64_t value, std::int64_t multiple);
    int tensor(const char* stem, Element type, ir::Role role, const std::vector<detail::AxisSpec>& axes,
               std::int64_t count, const Facts& facts);
    int tensor(const char* stem, Element type, ir::Role role, const std::vector<detail::AxisSpec>& axes,
               std::int64_t count) {
        return tensor(stem, type, role, axes, count, Facts{});
    }
    std::vector<std::uint8_t> contents(Element type, ir::Role role, std::int64_t count, double bound);
    static double input_bound(Element type);
    Element random_type();
    ir::Cache random_load_cache() { return random_.one_in(5) ? ir::Cache::kept : random_cache(); }
    ir::Cache random_cache() { return random_.one_in(5) ? ir::Cache::streaming : ir::Cache::normal; }
    int matrix(const char* stem, Element type, ir::Role role, const Length& rows, const Length& columns,
               const Facts& facts);
    int matrix(const char* stem, Element type, ir::Role role) {
        return matrix(stem, type, role, rows_, columns_, Facts{});
    }
    ViewSpec tile_of(int memory, std::int64_t down = 0, std::int64_t right = 0);
    static ViewSpec piece_of(int memory, Ref row, Ref column, std::int64_t rows, std::int64_t columns);
    Item loaded(const ViewSpec& view, Element type, const Shape& shape);
    Shape tile_shape() const { return {tile_rows_, tile_columns_}; }
    void load_tile();
    void load_line();
    void store_tile();
    void report_some();
    void store_packed(const Item& item);
    void store_anything();
    /// Into an output with one place for each block or, with an item, for each of `most` items of each block.
    void store_each(const Item& value, Ref item = nullptr, std::int64_t most = 1);

    // shared.cpp: shared tiles
    void through_shared();
    void reread_shared();
    static ViewSpec whole(const SharedTile& tile);
    /// A new tile, at random under a swizzle that keeps runs of 2^least_base elements together; of rank 0 if it would
    /// be too large.
    SharedTile new_tile(Element type, const Shape& shape, int least_base = 0);
    SharedTile declared(Element type, const Shape& shape, const ir::Swizzle& swizzle);

    // copies.cpp: copies to shared tiles, and pipelines of them
    void start_copy();
    /// Starts to copy a piece of a tensor that holds what the item says.
    void copy_piece(const ViewSpec& from, const Item& item);
    void wait_for_copies();
    Shape copy_shares(const Shape& shape, std::int64_t vector);
    void pipeline(int depth);
    Stream stream(ir::Copies engine, int stages, const Length& turns);
    Stream vector_stream(int stages, const Length& turns);
    Stream bulk_stream(int stages, const Length& turns);
    Stream tensor_stream(int stages, const Length& turns);
    Ref column_of(std::int64_t pieces, std::int64_t columns);
    static ViewSpec slot_of(const SharedTile& tile, Ref slot);
    /// Variables that start at zero and sum up the pieces of streams.
    std::vector<Sum> sums_of(const std::vector<Stream>& streams);
    void add_up(const Sum& sum, const Stream& stream, Ref slot);
    void read_sums(const std::vector<Sum>& sums, const std::vector<Stream>& streams, const Length& turns);

    // products.cpp: products on tensor cores
    void product(int depth);
    bool choose_product(Product& p, bool in_place);
    static std::int64_t instruction_depth(Element type);
    static double operand_bound(Element type) { return type == e4m3 ? 2 : 8; }
    /// A tile [rows, K] for a product.
    Ref operand(const Product& p, std::int64_t rows);
    Ref loaded_operand(Element type, std::int64_t rows, std::int64_t columns);
    /// A tile [M, N] that a product is added to.
    Item summand(const Product& p);
    void add_product(const Product& p, Ref node, double bound);
    void product_in_place();
    /// A tile for operands [parts · width] of so many rows, which has `stages` slots, or no such axis.
    SharedTile operand_memory(Element type, std::int64_t rows, std::int64_t parts, std::int64_t width, int stages);
    ViewSpec operand_in_place(const Product& p, std::int64_t rows);
    std::int64_t random_width(const Product& p);
    void fill_part(const ViewSpec& part, Element type, std::int64_t rows, std::int64_t width);
    void product_pipeline();

    // indices.cpp: tiles of indices
    int index_tensor(Element type, std::int64_t count, std::int64_t extent, bool distinct);
    Item indices(std::int64_t count, std::int64_t extent, bool distinct);
    void gather();
    void scatter();
    void gather_shared();
    void scatter_shared();

    // roles.cpp: roles of warps with rings between them
    struct RingPlan;
    void write_roles();
    std::vector<RingPlan> plan_rings(int roles, const Length& turns);
    void write_role(int role, const std::vector<RingPlan>& rings, const Length& turns, const Length& more,
                    Ref condition);
    void turn_of(int role, const std::vector<RingPlan>& rings, const std::vector<std::vector<Sum>>& sums,
                 std::size_t next, Ref turn);
    void fill(const RingPlan& plan, Ref turn);

    Random random_;
    std::vector<std::uint64_t>& scalars_;
    std::vector<std::vector<std::uint8_t>>& tensors_;
    Pool pool_;
    std::vector<SharedTile> shared_;
    std::vector<Copied> copied_;
    std::int64_t shared_bytes_ = 0, tile_rows_ = 1, tile_columns_ = 1;
    Length rows_{}, columns_{};
    Ref block_[2] = {};
    int names_ = 0, threads_ = 128;
    int first_warp_ = 0;  // of the role that is written
    bool in_role_ = false;
    bool alone_ = false;  // in what a warp runs by itself: shared tiles and copies are the block's
};

}  // namespace tessera::test
