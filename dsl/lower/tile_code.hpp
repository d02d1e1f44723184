#pragma once

#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "dsl/lower/iteration.hpp"
#include "dsl/lower/plan.hpp"

// Pass: tiles become what each thread does with the elements it holds. One object lowers one program; its parts:
//   team.cpp        the block, roles, warps alone
//   statements.cpp  the walk over the tile program          elements.cpp  one element, or one packed word, of a tree
//   memory.cpp      addresses, masks, vectors               reduce.cpp    registers, lanes, warps
//   least.cpp       selection                               mma.cpp       tensor cores
//   scan.cpp        running sums                            copy.cpp, box.cpp  asynchronous copies
//   warpgroup_mma.cpp  tensor cores that read shared memory

namespace tessera::lower {

/// Consecutive elements of a tile that one thread holds, as written-out digits; lane 0 first.
struct Run {
    std::vector<int> digits;           // innermost first
    std::vector<std::int64_t> counts;  // how many values of each take part
    std::int64_t length = 1;
    std::int64_t base = 0;  // where the run starts in its last digit, if more of that is written out
};

struct ScanAxis;

class TileCode {
public:
    TileCode(const ir::Program& recorded, const Target& target, const Plan& plan);
    ir::Program run();

private:
    // statements.cpp
    void lower_body(const ir::Body& body);
    void lower_statement(const ir::Statement& s);
    void lower_bind(Ref node);
    void lower_loop(const ir::For& loop);
    void set_tile(Ref value, const RegisterTile& tile);
    void convert(const Plan::Conversion& c);
    void convert_for(const ir::Statement& s);
    void emit(ir::StatementOp op);
    void order(const ir::View& view, bool scatters = false);
    void number_blocks();
    RegisterTile declare(const Layout& layout, Element type, int fast_axis, int most_pack, const std::string& name);
    int preferred_axis(const Iteration& it, Ref value) const;
    std::string new_name(const std::string& wanted);
    Ref name_value(const std::string& wanted, Ref value);
    /// Opens loops over the digits that are not written out, runs the body inside, closes them.
    void in_loops(Iteration& it, const std::function<void()>& body);
    /// body(index) for every word of a register array.
    void each_word(int words, const std::function<void(Ref)>& body);
    /// body(index) for 0 … turns − 1, in a loop that is written out.
    void each_turn(const char* name, std::int64_t turns, const std::function<void(Ref)>& body);
    void copy_registers(const RegisterTile& from, const RegisterTile& to);
    RegisterTile converted(const RegisterTile& from, const Shape& extents, const Layout& to);

    // team.cpp
    void number_warps();
    void lower_role(const ir::For& role);
    void lower_each_warp(const ir::For& loop);
    void lower_team(const ir::For& recorded, ir::For lowered, const std::function<void()>& begin);
    void declare_variables(std::size_t team);
    ir::View scratch(const std::string& name, Element type, const Shape& shape);
    Ref uniform(Ref number);
    Ref agreed(Ref number);

    // elements.cpp
    Ref scalar(Ref node);
    Ref scalar_expression(Ref node);
    Ref only_element(Ref tile);
    void look_ahead(Iteration& it, Ref node, const Position& at, std::vector<Ref>* leaves = nullptr) const;
    void prepare(Iteration& it, const std::vector<Ref>& values);
    RegisterTile own_registers(Ref value, const std::string& name);
    Ref element(Iteration& it, Ref node, const Position& at);
    Ref word(Iteration& it, Ref node, const Position& at, const Run& run, std::int64_t first, int lanes);
    std::vector<Ref> table_at(Iteration& it, Ref node, const Position& at);
    Ref looked_up(Iteration& it, Ref node, const Position& at, const Run& run, std::int64_t first, int lanes);
    Ref read_lane(Iteration& it, const RegisterTile& tile, const Position& at);
    Ref read_word(Iteration& it, const RegisterTile& tile, const Position& at, const Run& run, std::int64_t first,
                  int lanes);
    Ref word_index(const Iteration& it, const RegisterTile& tile, const Position& at, std::int64_t& lane) const;
    void set_lane(Iteration& it, const Run& run, std::int64_t lane) const;
    const RegisterTile* tile_of(Ref user, Ref node) const;
    Ref element_of(Iteration& it, Ref user, Ref operand, const Position& at);
    Ref word_of(Iteration& it, Ref user, Ref operand, const Position& at, const Run& run, std::int64_t first,
                int lanes);

    // memory.cpp
    Run run_along(Iteration& it, const std::vector<int>& axis, std::int64_t most) const;
    void require_whole_bytes(const ir::View& view, const Run& run, int axis, int most) const;
    void load_tile(Ref node);
    void load_piece(const ir::View& view, Ref fill, const RegisterTile& tile, ir::Cache cache = ir::Cache::normal);
    void store_piece(const ir::View& view, Ref value, ir::Cache cache);
    void store_registers(const ir::View& view, const RegisterTile& tile, ir::Cache cache = ir::Cache::normal);
    bool store_regrouped(const ir::View& view, Ref value, int axis, int most, ir::Cache cache);
    void add_piece(const ir::View& view, Ref value);
    void report_piece(const ir::Report& r);
    struct Address {
        std::vector<Ref> base;                        // per memory axis: block and thread part of the coordinate
        Ref at = nullptr;                             // offset of that
        std::map<std::size_t, RegisterTile> indices;  // by memory axis, where a tile of indices gives the coordinates
        std::map<std::size_t, Ref> limits;  // by memory axis: what the thread's own part of the coordinate stays below
    };
    Address address(const ir::View& view, const Iteration& it, const std::string& name, bool with_offset = true);
    RegisterTile index_tile(Ref index, const Iteration& it, std::size_t tile_axis);
    ir::Access access(const ir::View& view, Iteration& it, const Address& address, int axis, int lanes, bool once);
    Ref limit_of(const ir::View& view, std::size_t axis, const Address& address, const std::string& name);
    Ref in_bounds(const ir::View& view, std::size_t axis, const Address& address, Ref local, Ref coordinate);
    Ref stride_of(const ir::View& view, std::size_t axis);
    Ref extent_of(const ir::View& view, std::size_t axis);
    Ref only_once(const Iteration& it);
    Element memory_type(const ir::View& view) const;
    std::string memory_name(const ir::View& view) const;  // a copy: tables of names grow

    // mma.cpp
    RegisterTile mma_operand(Ref mma, Ref operand, const char* name);
    void mma(Ref node);
    RegisterTile mma_result(Ref node);

    // warpgroup_mma.cpp
    struct Matrix {
        int tile = -1;
        Ref start = nullptr;          // offset of the first element, i32
        std::int64_t part = 0;        // elements from one part of K to the next
        std::int64_t part_depth = 0;  // elements along K in a part
    };
    Matrix matrix_of(Ref operand);
    Ref step_of(const Matrix& m, std::int64_t depth, Ref first, Ref step);
    void warpgroup_mma(Ref node);

    // copy.cpp
    void copy_piece(const ir::Copy& copy);
    void copy_box(const ir::Copy& copy);
    int map_of(const ir::Copy& copy);
    Ref box_coordinate(Ref offset);
    void wait(const ir::WaitCopies& wait);
    void hoist_barrier(ir::Body& body) const;

    // reduce.cpp
    void reduce(Ref node);
    Ref magnitude_of(Ref value) const;
    int folded_together(const ir::Reduce& r, Element type, const Iteration& it, int& digit) const;
    int packed_beside(const ir::Reduce& r, Element type, const Layout& layout);
    RegisterTile partial_words(const RegisterTile& result, int lanes);
    void add_product(Iteration& it, Ref product, Ref index, const RegisterTile& result);
    struct Folding {
        ir::ReduceOp op;
        Element type;
        int lanes;  // of the words
        Ref value;  // what is folded: of a maximum by magnitude, what stands under |·|
        Ref start;
        bool by_magnitude;
    };
    Folding folding_of(const ir::Reduce& r, Element type, int lanes);
    Ref folded(const Folding& f, Ref a, Ref b);
    Ref splat(Ref value, int lanes);
    void fold_word(const RegisterTile& words, Ref index, const Folding& f, Ref v);
    void fold_registers(Ref node, const RegisterTile& result);
    void fold_beside(Ref node, const RegisterTile& result, Iteration& it);
    void fold_lanes(const ir::Reduce& r, const RegisterTile& result, const Layout& layout);
    void fold_warps(const ir::Reduce& r, const RegisterTile& result, const Layout& layout, const Shape& extents);
    Ref fold(ir::ReduceOp op, Ref a, Ref b);
    Ref over_warp(ir::ReduceOp op, Ref value);
    void vote(Ref node);
    Ref identity(ir::ReduceOp op, Element type);

    // scan.cpp
    void scan(Ref node);
    void scan_line(Iteration& it, const ScanAxis& axis, bool exclusive, const std::function<Ref()>& read,
                   const RegisterTile& sums, const RegisterTile* totals);
    Ref lanes_before(const Iteration& it, const ScanAxis& axis, bool with_total, Ref& total);
    RegisterTile parts_of_warps(const RegisterTile& totals, const AxisModes& warps, const Shape& extents,
                                std::size_t axis);
    void add_warps(Iteration& it, const ScanAxis& axis, const AxisModes& warps, const RegisterTile& sums,
                   const RegisterTile& parts);
    Ref sum_of(Ref a, Ref b);

    // least.cpp
    void least(Ref node);
    void require_lanes(Ref match) const;
    Ref snapshot(const std::string& wanted, Ref value);
    struct Halves {
        Ref high = nullptr, low = nullptr;  // of 64 bits; of 32 bits there is no low one
    };
    Halves halves_of(Ref value);
    Ref whole_of(const Halves& h, Element type);
    Halves chosen(const std::string& name, Ref condition, const Halves& a, const Halves& b);
    std::vector<Halves> sorted(std::vector<Halves> elements, int wanted, Element type);
    Halves least_of_lanes(const Halves& head, const Layout& layout, int axis, Ref& won);
    void select_line(Iteration& it, Ref node, const RegisterTile& result, const Position& kept,
                     const std::vector<int>& along);

    const ir::Program& in_;
    const Target& target_;
    const Plan& plan_;
    int threads_;  // of the team that is lowered
    ir::Program out_;
    Expressions e_;
    Facts facts_;
    ir::Body* body_ = nullptr;
    Place place_;
    std::map<int, RegisterTile> tiles_;  // by recorded node id
    std::map<int, Ref> values_;          // rank 0, by recorded node id
    Ref warp_ = nullptr,
        lane_ = nullptr;       // numbers of the warp and of the thread in it, where each warp runs by itself
    bool each_warp_ = false;   // that is lowered
    int warp_scopes_ = 0;      // conditions by warps around the statement
    std::set<int> scattered_;  // shared tiles whose last access is a scatter
    std::vector<int> seen_;    // views that have a tile in this statement only
    std::map<const Plan::Conversion*, RegisterTile> converted_;
    std::vector<RegisterTile> variables_;
    std::vector<int> loop_of_;                         // recorded loop id → lowered loop id
    std::vector<Ref> blocks_;                          // block index along each axis of the grid
    std::vector<std::unordered_map<Ref, Ref>> named_;  // expressions named in the open scopes
    std::map<std::string, int> names_;
};

}  // namespace tessera::lower
