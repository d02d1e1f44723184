#pragma once

#include <memory>
#include <string>
#include <vector>

#include "dsl/ir/statement.hpp"

namespace tessera::ir {

/// Coordinate c of an axis lies (c / inner) · stride + (c % inner) · inner_stride elements from the base.
/// A plain axis has inner = 1. Packed scales have inner = 4: byte in word, then word.
struct Axis {
    Ref extent;  // i64, rank 0, over parameters and constants only
    Ref stride;
    int inner = 1;
    std::int64_t inner_stride = 0;
};

struct TensorParam {
    std::string name;
    Element type;
    Role role;
    std::vector<Axis> axes;
    int align;  // bytes that the base address is a multiple of
    Place place;
};

/// A number known only at launch. `dim`s are i64 and are bound from tensor extents and strides that consist of them
/// alone.
struct ScalarParam {
    std::string name;
    Element type;
    std::int64_t multiple_of;  // 1 if nothing is known
    Place place;
};

/// XOR swizzle of the element offset inside a shared tile: bits [shift, shift + bits) of (offset >> base) are XORed
/// into its bits [0, bits). bits = 0: none.
struct Swizzle {
    int bits = 0, base = 0, shift = 0;

    std::int64_t operator()(std::int64_t offset) const {
        const std::int64_t mask = (std::int64_t{1} << bits) - 1;
        return offset ^ ((((offset >> base) >> shift) & mask) << base);
    }
};

struct SharedTile {
    std::string name;
    Element type;
    Shape shape;  // row-major
    Swizzle swizzle;
    Place place;
    std::int64_t byte_offset = -1;  // lowered: place in the block's shared memory
};

/// State across iterations; a register tile.
struct Variable {
    std::string name;
    Element type;
    Shape shape;
    Place place;
};

/// What must hold of a tensor's elements; a Report names one that does not keep it.
struct Rule {
    std::string text;  // a sentence without its point: "a position is a row of out, or negative"
    int tensor;        // index into Program::tensors; of rank 1 or 2
    bool valued;       // a report tells a value …
    Element shown;     // … which is of this element
    Place place;
};

/// Lowered: words of 32 bits (64 for 64-bit elements), each holding `pack` elements from the low end.
struct RegisterArray {
    std::string name;
    Element type;
    int pack;
    int words;
    std::string note;  // the tile's extents and layout, for the reader
};

/// Lowered: boxes of a tensor as the copy engine takes them. A launch describes the tensor by a tensor map of its own
/// for each, an argument of the kernel.
struct TensorMap {
    std::string name;
    int tensor;   // index into Program::tensors
    Shape box;    // extents along the tensor's axes
    int swizzle;  // bytes of a row whose pieces of 16 bytes are XORed with the row's number: 32, 64, 128; 0: none

    /// Most axes and the longest side.
    static constexpr int most_axes = 5, most_side = 256;
    /// Most maps of a program.
    static constexpr int most = 16;
    /// Bytes that the place of a box in shared memory is a multiple of.
    int alignment() const { return swizzle > 0 ? 8 * swizzle : 128; }
};

/// The swizzle of a tile whose rows have `bytes` (32, 64 or 128) as the copy engine writes it; of elements of `bits`.
constexpr Swizzle engine_swizzle(int bytes, int bits) {
    int base = 0;
    while ((bits << base) < 128) ++base;
    return {bytes == 128 ? 3 : bytes == 64 ? 2 : 1, base, 3};
}

/// A range of whole warps with a body of its own. The roles of a program share out the warps of the block in order.
struct WarpRole {
    std::string name;
    int first_warp = 0, warps = 1;
    int registers = 0;  // of a thread while the role runs; 0: as the kernel was launched
    Place place;

    int threads() const { return 32 * warps; }
    int first_thread() const { return 32 * first_warp; }
};

enum class Stage : std::uint8_t { recorded, lowered };

struct Program {
    std::string name;
    Stage stage = Stage::recorded;
    Place place;
    int least_blocks = 0;  // blocks of a multiprocessor that registers must leave room for; 0: the compiler decides
    int threads = 128;     // of a block
    bool dependent_launch = false;     // waits somewhere for the kernel ahead of it in the stream
    bool cooperative = false;          // all blocks run at once, as grid syncs need
    std::vector<TensorParam> tensors;  // launch arguments: tensors first, then scalars
    std::vector<ScalarParam> scalars;
    std::vector<TensorMap> maps;  // lowered; arguments after the scalars
    std::vector<Ref> grid;        // extents, i64 over parameters; the last axis runs fastest
    std::vector<SharedTile> shared;
    std::vector<Variable> variables;
    std::vector<WarpRole> roles;
    std::vector<Rule> rules;  // any: a launch has a record, its last argument
    std::vector<RegisterArray> arrays;
    std::vector<std::string> locals;  // names by Let id, unique in the program
    int loops = 0;                    // loop ids are 0 … loops−1
    std::int64_t shared_bytes = 0;
    Body body;
    std::shared_ptr<Arena> arena = std::make_shared<Arena>();
};

}  // namespace tessera::ir
