#pragma once

#include <cstdint>
#include <deque>
#include <variant>
#include <vector>

#include "dsl/base/element.hpp"
#include "dsl/base/place.hpp"
#include "dsl/base/shape.hpp"
#include "dsl/ir/ops.hpp"

// Expression nodes. One closed set serves both stages of a program:
//   recorded  a node is a tile (shape = extents) or a scalar (rank 0), uniform over the block when rank 0;
//   lowered   a node is what one thread holds: a scalar (rank 0) or a packed word (shape {lanes}, one 32-bit register).
// Every kind is a struct whose fields() names its fields once; walking, rewriting, equality and printing derive from
// it. A node's identity is its address. Nodes are immutable once made and live as long as their Arena.

namespace tessera::ir {

struct Node;
using Ref = const Node*;

/// A rectangular piece of a tensor or shared tile. Each axis of the memory has an offset (i64, rank 0) and an extent;
/// a `picked` axis (extent 1) does not appear in the tile. Along an axis of a tensor the offset may be a tile of
/// indices (i32 or i64, rank 1, the axis' extent): element i lies at index i, wherever that is; what is outside is
/// masked.
struct ViewAxis {
    Ref offset;
    std::int64_t extent;
    bool picked;
};
struct View {
    Space space;
    int memory;  // index into Program::tensors or Program::shared
    std::vector<ViewAxis> axes;
};

// ---- both stages ---------------------------------------------------------------------------------------------------

struct Constant {  // value of node.type, in its own encoding (floats by their bits)
    std::uint64_t bits;
    static void fields(auto& s, auto&& f) { f("bits", s.bits); }
};
struct Parameter {  // Program::scalars[index]
    int index;
    static void fields(auto& s, auto&& f) { f("index", s.index); }
};
struct LoopIndex {  // counter of the For statement with this id
    int loop;
    static void fields(auto& s, auto&& f) { f("loop", s.loop); }
};
struct Unary {
    UnaryOp op;
    Ref value;
    static void fields(auto& s, auto&& f) { f("op", s.op), f("value", s.value); }
};
struct Binary {
    BinaryOp op;
    Ref a, b;
    static void fields(auto& s, auto&& f) { f("op", s.op), f("a", s.a), f("b", s.b); }
};
struct Fma {  // a · b + c, rounded once; f32
    Ref a, b, c;
    static void fields(auto& s, auto&& f) { f("a", s.a), f("b", s.b), f("c", s.c); }
};
/// A value for each of the 8 magnitudes of an e2m1 code: table[code & 7]; of e2m1 and e4m3 negated where the code is
/// negative and `signs` holds (null: everywhere). Recorded: 8 tiles. Lowered: 8 elements, packed in words of 32 bits,
/// and one boolean for all lanes of the index.
struct Lookup {
    Ref index;
    std::vector<Ref> table;
    Ref signs;
    static void fields(auto& s, auto&& f) { f("index", s.index), f("table", s.table), f("signs", s.signs); }
};
struct Select {
    Ref condition, a, b;
    static void fields(auto& s, auto&& f) { f("condition", s.condition), f("a", s.a), f("b", s.b); }
};
struct Cast {  // by value: round to nearest even, saturating for e4m3; float to integer truncates
    Ref value;
    bool bounded = false;  // to e2m1: |value| < 7 or NaN, in f16 of eight significant bits
    static void fields(auto& s, auto&& f) { f("value", s.value), f("bounded", s.bounded); }
};
struct Bitcast {  // same width, other meaning
    Ref value;
    static void fields(auto& s, auto&& f) { f("value", s.value); }
};

// ---- recorded ------------------------------------------------------------------------------------------------------

struct BlockIndex {  // index of this block along an axis of the grid, i64
    int axis;
    static void fields(auto& s, auto&& f) { f("axis", s.axis); }
};
struct Coordinate {  // tile of i64: the position along `axis`
    int axis;
    static void fields(auto& s, auto&& f) { f("axis", s.axis); }
};
struct Load {  // what lies outside the memory reads as `fill` (rank 0)
    View view;
    Ref fill;
    Shape per_thread;  // slots that a thread holds side by side along each axis; rank 0: by rule
    int lanes = 0;     // threads along the contiguous axis, at most; 0: as many as fit
    Cache cache = Cache::normal;
    static void fields(auto& s, auto&& f) {
        f("view", s.view), f("fill", s.fill), f("per_thread", s.per_thread), f("lanes", s.lanes);
        f("cache", s.cache);
    }
};
struct Reduce {  // the axis stays, with extent 1
    ReduceOp op;
    Ref value;
    int axis;
    static void fields(auto& s, auto&& f) { f("op", s.op), f("value", s.value), f("axis", s.axis); }
};
struct Broadcast {  // extents of 1 (or rank 0) grow to node.shape
    Ref value;
    static void fields(auto& s, auto&& f) { f("value", s.value); }
};
struct Reshape {  // row-major re-cut of the same elements: split, merge, squeeze, unsqueeze
    Ref value;
    static void fields(auto& s, auto&& f) { f("value", s.value); }
};
struct Permute {  // result axis i is axis order[i] of the value
    Ref value;
    std::vector<int> order;
    static void fields(auto& s, auto&& f) { f("value", s.value), f("order", s.order); }
};
struct Convert {  // same tile in another layout (layouts stand beside the program); costs a trip through shared memory
    Ref value;
    static void fields(auto& s, auto&& f) { f("value", s.value); }
};
struct VariableRead {  // the variable's value at this point of the program
    int variable;
    static void fields(auto& s, auto&& f) { f("variable", s.variable); }
};

/// Those of ranks first … count − 1 among the elements along the axis, ascending; the lowest rank is 0. Whole numbers
/// of 32 or 64 bits that differ from each other. The axis gets the least power of two that holds them as its extent;
/// past the last one lies the largest number of the type.
struct Least {
    static constexpr int most = 32;  // ranks
    Ref value;
    int axis;
    int first, count;
    static void fields(auto& s, auto&& f) {
        f("value", s.value), f("axis", s.axis), f("first", s.first), f("count", s.count);
    }
};

/// c + a · bᵀ on the tensor cores: a [M, K], b [N, K], c and the result f32 [M, N]. The operands are of a type that
/// tensor_core.hpp has instructions for. Warps share the M · N results: `warps` of them along M, the others along N.
/// Shared operands are loads of shared tiles, seen with other extents at most, that nothing else uses: tensor cores
/// that can read them where they lie.
struct Mma {
    Ref a, b, c;
    int warps;
    bool shared_a = false, shared_b = false;
    static void fields(auto& s, auto&& f) {
        f("a", s.a), f("b", s.b), f("c", s.c), f("warps", s.warps);
        f("shared_a", s.shared_a), f("shared_b", s.shared_b);
    }
};

/// Sums along the axis: of the elements up to and with each, or, exclusive, of those before it, starting from 0. Of f32
/// in an order that the layout fixes.
struct Scan {
    Ref value;
    int axis;
    bool exclusive;
    static void fields(auto& s, auto&& f) { f("value", s.value), f("axis", s.axis), f("exclusive", s.exclusive); }
};

// ---- lowered -------------------------------------------------------------------------------------------------------

struct ThreadIndex {  // i32, 0 … threads−1
    static void fields(auto&, auto&&) {}
};
struct LinearBlock {  // i64, 0 … product of the grid −1; the last grid axis runs fastest
    static void fields(auto&, auto&&) {}
};
struct Local {  // value bound by the Let statement with this id
    int local;
    static void fields(auto& s, auto&& f) { f("local", s.local); }
};
struct Register {  // word `index` (i32: constants and counters of unrolled loops only) of a register array
    int array;
    Ref index;
    static void fields(auto& s, auto&& f) { f("array", s.array), f("index", s.index); }
};
struct Lane {  // element `lane` of a packed word
    Ref value;
    int lane;
    static void fields(auto& s, auto&& f) { f("value", s.value), f("lane", s.lane); }
};
struct Pack {  // the word whose elements are these rank-0 values, lowest first
    std::vector<Ref> elements;
    static void fields(auto& s, auto&& f) { f("elements", s.elements); }
};
struct Shuffle {  // the value that the lane with index ^ mask holds; all threads of the warp take part
    Ref value;
    int mask;
    static void fields(auto& s, auto&& f) { f("value", s.value), f("mask", s.mask); }
};

/// Lowered: over all lanes of the warp: sum, max and min of i32 and u32; any (max) and all (min) of booleans. Recorded:
/// any or all of a tile's elements that a warp holds, of rank 0; the condition of a `when` by warps and nothing else.
struct WarpReduce {
    ReduceOp op;
    Ref value;
    static void fields(auto& s, auto&& f) { f("op", s.op), f("value", s.value); }
};

/// Both stages. Bit j is set where element j along the axis, whose elements are the lanes of a warp in order, equals
/// this one; whole numbers of 32 or 64 bits. Lowered, the axis is what the lanes are.
struct Match {
    Ref value;
    int axis;
    static void fields(auto& s, auto&& f) { f("value", s.value), f("axis", s.axis); }
};

using Op = std::variant<Constant, Parameter, LoopIndex, Unary, Binary, Fma, Select, Cast, Bitcast, BlockIndex,
                        Coordinate, Load, Reduce, Broadcast, Reshape, Permute, Convert, VariableRead, ThreadIndex,
                        LinearBlock, Local, Register, Lane, Pack, Shuffle, Least, WarpReduce, Lookup, Match, Mma, Scan>;

struct Node {
    int id;  // dense within its arena, in order of creation
    Element type;
    Shape shape;
    Place place;
    Op op;

    template <class Kind>
    const Kind* as() const {
        return std::get_if<Kind>(&op);
    }
    bool scalar() const { return shape.rank() == 0; }
    /// Lowered: elements in the word; 1 for a scalar.
    int lanes() const { return shape.rank() == 0 ? 1 : static_cast<int>(shape[0]); }
};

/// Owns nodes; addresses stay valid for its life.
class Arena {
public:
    Ref make(Element type, Shape shape, Place place, Op op) {
        nodes_.push_back(Node{static_cast<int>(nodes_.size()), type, shape, place, std::move(op)});
        return &nodes_.back();
    }
    int size() const { return static_cast<int>(nodes_.size()); }

private:
    std::deque<Node> nodes_;
};

}  // namespace tessera::ir
