#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "dsl/host/lane_ops.hpp"
#include "dsl/host/vector_access.hpp"
#include "dsl/ir/program.hpp"

// What the assembler makes and the machine runs: a flat list of instructions over registers. A lane register holds one
// value a thread, a uniform register one value for the block; both lie in one file that each worker owns.

namespace tessera::host {

/// A register after allocation. A thread's value lies at offset + thread · step; step 0: the same for all.
struct Operand {
    std::uint32_t offset = 0;  // bytes from the start of the register file
    std::uint32_t step = 0;    // bytes: 4 or 8 for a lane register, 0 for a uniform one
};

enum class Kind : std::uint8_t {
    lanes,       // out[0] = fn(in…) for every thread (once for a uniform result)
    load,        // outs = the lanes of accesses[info]
    store,       // the lanes of accesses[info] = the last ins
    bulk,        // where both predicates hold, the lanes of accesses[info] go to those of accesses[info + 1]
    box,         // the thread where in[0] holds moves a box of the map of boxes[info]
    commit,      // the copies started since the last one are a group
    wait,        // the copies under way are complete, but those of the last `info` groups
    start,       // the mbarriers of accesses[info] begin
    arrive,      // at the mbarrier of accesses[info], once, for the first warp
    release,     // at the mbarrier of accesses[info], once for every warp
    wait_phase,  // until the phase of parity in[1] of the mbarrier of accesses[info] is complete
    fence,       // what has been stored comes ahead of bulk copies and tensor cores
    barrier,     // every thread of the role, of the warp that runs by itself or, outside of both, of the block
    grid_sync,   // every block of the grid
    loop_enter,  // out[0] = begin, past the loop unless begin < end
    loop_next,   // out[0] += step, back to the body while below end
    warp_enter,  // the body for each warp by itself whose first thread's in[0] is not 0, then past it
    warp_leave,  // the end of such a body
    defined,     // in[0]: whether the word that undefined_reads[info] names has been written
    report,      // in[0]: where not 0, the record meets (rules[info], in[1], in[2])
    bounded,     // in[0]: where not 0, in[1] (and in[2]) lie outside of what the operation of bounds[info] allows
    mma,         // outs = the first four ins + the product of the others; info: index into mmas
    product,     // the same by four warps, under way until a wait; info: index into products
    product_wait,
    finish,
};

struct Instruction {
    Kind kind;
    bool uniform = false;   // a `lanes` instruction with a uniform result
    std::uint8_t outs = 0;  // operands: first the outs, then the ins
    std::uint8_t ins = 0;
    std::uint32_t operands = 0;  // index of the first one in Code::operands
    std::uint32_t info = 0;      // index into the table of the kind; of a loop: where to jump
    LaneFunction fn = nullptr;
};

/// A load or store. Its ins, in order: offset (i64), predicate and fill if it has them, the coordinates (i64, only when
/// checked), and the elements of a store.
struct AccessInfo {
    Place place;
    ir::Space space;
    int memory;  // index into Program::tensors or Program::shared
    int axis;    // along which the lanes run
    int lanes;
    Element type;
    bool store;
    bool predicated;
    AccessFunction move;
    int coordinates;      // 0 when unchecked
    bool copied = false;  // a load whose elements are copied by the store after it
    bool copy = false;    // a store that is under way until a wait
    bool bulk = false;    // by the copy engine: any number of lanes, at multiples of 16 bytes
    bool add = false;     // a store that adds atomically to what is there
    bool fenced = false;  // a store to a tile that bulk copies write to as well
    int arrivals = 1;     // of mbarriers: that a phase expects
};

/// A copy by a tensor map. Its ins, in order: the predicate, then as i64 the box' coordinates in the tensor, its offset
/// in the tile, its coordinates there (only when checked) and the mbarrier's stage.
struct BoxInfo {
    int map;               // index into Program::maps
    std::uint32_t access;  // index into Code::accesses of a row in the tile; the next one is of the mbarrier
};

/// Its ins, in order: columns / 2 sums, of a its elements in registers or an offset (i64), and of b an offset.
struct ProductInfo {
    Element type;
    int columns;
    bool registers;         // a lies in registers
    std::uint32_t operand;  // index into Code::accesses of what b, then a if it lies there, are in shared memory
};

struct UndefinedRead {
    Place place;
    std::string array;
    int word;
};

/// Where an operation stands that is only allowed inside of bounds.
struct Bound {
    Place place;
    bool division;  // else a cast
};

struct Code {
    bool checked = false;
    // what needs no block index, finish, the block's code, finish, and for each role its code and finish
    std::vector<Instruction> instructions;
    std::uint32_t block_entry = 0;            // index of the block's first instruction
    std::vector<std::uint32_t> role_entries;  // by role: index of its first instruction
    std::vector<Operand> operands;
    std::vector<AccessInfo> accesses;
    std::vector<BoxInfo> boxes;
    std::vector<UndefinedRead> undefined_reads;
    std::vector<Bound> bounds;
    std::vector<Element> mmas;  // the operands' type
    std::vector<ProductInfo> products;
    std::vector<int> rules;  // indices into Program::rules
    std::size_t file_bytes = 0;

    struct Initial {  // what a worker writes into its file before it starts
        Operand at;
        bool wide;
        std::uint64_t bits;
    };
    struct Scalar {
        Operand at;
        bool wide;
        int index;  // of Program::scalars
    };
    std::vector<Initial> constants;
    std::vector<Scalar> scalars;
    Operand thread_index, block_index;
    bool has_thread_index = false, has_block_index = false;
};

}  // namespace tessera::host
