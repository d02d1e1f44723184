#pragma once

#include <string>
#include <variant>
#include <vector>

#include "dsl/ir/node.hpp"

// Statements, as flat lists. Ranges are half-open. reads_of / writes_of (effects.hpp) say what each touches.

namespace tessera::ir {

struct Statement;
using Body = std::vector<Statement>;

/// One memory access of one thread: `lanes` consecutive elements starting at `offset`. Together they have 1, 2, 4, 8,
/// 16 or, in global memory of an SM100, 32 bytes, and the address is a multiple of that; of e5m6 they have 12, 24 or 48
/// bytes, moved as three equal accesses, and the address is a multiple of one of these.
struct Access {
    Space space = Space::global;
    int memory = 0;                // index into Program::tensors or Program::shared
    std::vector<Ref> coordinates;  // of the first element, i64 or i32, one per axis: what a bounds check looks at
    int axis = 0;                  // the axis along which the lanes run
    Ref offset = nullptr;          // in elements from the memory's base; i64 for global, i32 for shared
    Ref predicate = nullptr;       // boolean; null: every thread takes part
    int lanes = 1;
    Cache cache = Cache::normal;  // global memory only
};

// ---- both stages ---------------------------------------------------------------------------------------------------

/// A counted loop. The counter is i64 in a serial loop and i32 in an unrolled one, whose bounds are constants.
struct For {
    int loop;
    std::string name;  // of the counter
    Ref begin, end, step;
    bool unrolled;
    Body body;
    bool when = false;  // a condition: from 0 to 0 or 1 by 1, the counter unused
    bool warp = false;  // of a condition: each warp decides for itself, and nothing in the body crosses warps
    int role = -1;      // of a condition from 0 to 1: the body of Program::roles[role], run by its warps alone
    /// Of a loop: warp w of the W warps of the block runs the turns w, w + W, … by itself. Recorded, it counts from 0
    /// by 1; lowered, from the number of the warp by W.
    bool each_warp = false;
};

// ---- recorded ------------------------------------------------------------------------------------------------------

struct Bind {  // the tile is computed here
    Ref value;
};
struct Store {
    View view;
    Ref value;
    Cache cache = Cache::normal;
};
struct Accumulate {  // view += value, element by element and atomically; whole numbers of 32 or 64 bits
    View view;
    Ref value;
};
/// From a tensor to shared memory, under way until a WaitCopies covers it. By vectors (no mbarriers), what is outside
/// becomes zeros; in bulk, rows that are outside are left as they were; by a tensor map, zeros again.
struct Copy {
    View from, to;
    Shape per_thread = {};  // elements that one copy of a thread moves along each axis; rank 0: by rule
    int mbarriers = -1;     // a tile of mbarriers that count its bytes; −1: the group of the thread counts
    Ref stage = nullptr;    // which of the mbarriers; i64, rank 0
    bool tensor = false;    // by a tensor map; mbarriers count its bytes
};
struct Assign {  // variable = value, all parts
    int variable;
    Ref value;
};
struct Report {  // the elements of the view, inside the tensor, that `bad` (boolean) marks break Program::rules[rule]
    int rule;
    View view;
    Ref bad;
    Ref value;  // i64, of bad's extents or of rank 0: what breaks it, by Rule::shown
};

// ---- lowered -------------------------------------------------------------------------------------------------------

struct Comment {
    std::string text;
};
struct Declare {  // Program::arrays[array] comes into scope; its words are undefined
    int array;
};
struct Let {  // names a per-thread value; Program::locals[local] is its name
    int local;
    Ref value;
};
struct Set {  // word `index` of a register array
    int array;
    Ref index;
    Ref value;
};
struct LoadVector {  // words index … index + lanes / pack − 1 of the array; where the predicate is false, `fill`
    Access access;
    int array;
    Ref index;
    Ref fill;  // rank 0, of the memory's element type; null iff there is no predicate
};
struct StoreVector {  // the words' elements, in order, make the `lanes` elements
    Access access;
    std::vector<Ref> words;
};
/// One thread starts to copy the `lanes` elements of `from` to `to`. Neither may be touched before its WaitCopies.
/// Without mbarriers 4, 8 or 16 bytes, zeros where from's predicate is false; with them, a multiple of 16 bytes, and
/// nothing is copied where one of the predicates is false.
struct CopyVector {
    Access from, to;
    int mbarriers = -1;
    Ref stage = nullptr;  // i32
};
/// The one thread where the predicate holds starts to copy a box of Program::maps[map]. It goes to as many elements
/// side by side of a shared tile, under the tile's swizzle. What is outside of the tensor becomes zeros.
struct CopyBox {
    int map = 0, tensor = 0;  // the tensor is the map's
    std::vector<Ref> from;    // coordinates of its first element along the tensor's axes, i32; may be outside
    int tile = 0;             // index into Program::shared
    std::vector<Ref> to;      // coordinates of that element in the tile, i32
    Ref offset = nullptr;     // of it, in elements from the tile's base; i32
    Ref predicate = nullptr;
    int mbarriers = -1;
    Ref stage = nullptr;  // i32
};
struct AtomicAdd {  // memory += value; the access has one lane
    Access access;
    Ref value;
};
struct ReportElement {  // where `bad`: the launch's record becomes (rule, place, value) if that is before what it holds
    int rule;
    Ref place;  // u64: see report.hpp
    Ref bad;    // boolean, rank 0
    Ref value;  // i64
};
/// One instruction of the tensor cores, by all lanes of every warp: the words `into` of the array of f32 += a · bᵀ, of
/// the shape and with the elements in the lanes that tensor_core.hpp says for the words' type.
struct MmaTile {
    int array;
    std::vector<Ref> into;  // indices, i32
    std::vector<Ref> a, b;  // words
};
struct Barrier {};  // every thread of the role or of the warp (For::each_warp) that it stands in, else of the block
/// One instruction of the tensor cores by all threads of each four warps, under way until an MmaWait: the words of the
/// array of f32 += a · bᵀ, of 64 × `columns`, as tensor_core.hpp says; `rows_apart` words lie from those of a row to
/// those of the row 8 below. b, and a if it has no words, lie in shared tiles: their first element is at this offset,
/// before the swizzle.
struct WarpgroupMma {
    int array = 0;
    Ref into = nullptr;  // the first word's index, i32
    int rows_apart = 0, columns = 0;
    std::vector<Ref> a;  // four registers, or none
    int a_tile = -1;
    Ref a_offset = nullptr;  // in elements, i32
    int b_tile = -1;
    Ref b_offset = nullptr;
};
struct MmaFence {  // the products that follow see what has been written to these register arrays
    std::vector<int> arrays;
};
struct MmaWait {  // all products under way are complete; they use no other register arrays than these
    std::vector<int> arrays;
};
struct ProxyFence {};  // what a thread has stored to shared memory comes ahead of the copy engine and tensor cores

// ---- both stages

/// Without mbarriers: a thread's own copies are complete, but for its latest `pending` groups and, if pending > 0, what
/// is in no group yet. With them: the phase of this parity of mbarrier `stage` is complete, for every thread.
struct WaitCopies {
    int pending = 0;
    int mbarriers = -1;
    Ref stage = nullptr, parity = nullptr;  // whole numbers of rank 0: i64, lowered i32
    bool first_warp = false;                // only the first warp of the role waits, which starts its copies
};

/// What has been copied since the last one becomes a group of its own; with mbarriers, the one arrival that a phase of
/// mbarrier `stage` needs beside the bytes copied in it.
struct CommitCopies {
    int mbarriers = -1;
    Ref stage = nullptr;
};
struct GridSync {};         // every block has come here, and sees what all have written to tensors; top level only
struct KernelAheadWait {};  // the kernel ahead in the stream is done, its writes are seen; once, at the top level
struct InitMbarriers {      // once in a program, ahead of all that names them
    int mbarriers = -1;
    int arrivals = 1;  // that each expects in a phase
};
struct Arrive {  // each warp of the role, once all its lanes have come here, arrives once at mbarrier `stage`
    int mbarriers = -1;
    Ref stage = nullptr;
};

using StatementOp =
    std::variant<For, Bind, Store, Accumulate, Assign, Report, Comment, Declare, Let, Set, LoadVector, StoreVector,
                 AtomicAdd, ReportElement, Barrier, Copy, CopyVector, WaitCopies, CommitCopies, InitMbarriers, MmaTile,
                 GridSync, CopyBox, WarpgroupMma, MmaFence, MmaWait, Arrive, ProxyFence, KernelAheadWait>;

struct Statement {
    Place place;
    StatementOp op;

    template <class Kind>
    const Kind* as() const {
        return std::get_if<Kind>(&op);
    }
    template <class Kind>
    Kind* as() {
        return std::get_if<Kind>(&op);
    }
};

}  // namespace tessera::ir
