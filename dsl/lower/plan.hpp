#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "dsl/base/layout.hpp"
#include "dsl/base/target.hpp"
#include "dsl/ir/program.hpp"

// What the first passes decide about a recorded program; the tile program itself is not rewritten.

namespace tessera::lower {

using ir::Ref;

/// Threads that tiles lie over and barriers bring together: the block's, those of a role, or of a warp by itself.
struct Team {
    int threads = 0;
    int first_thread = 0;
    bool each_warp = false;  // each warp of the block is one
};

/// Computed at its line into registers of its own, rather than inside its only user.
struct Plan {
    std::vector<bool> bound;                                          // by node id
    std::vector<std::optional<Layout>> layouts;                       // by node id; tiles only
    std::vector<std::optional<Layout>> variables;                     // by variable
    std::vector<Team> teams;                                          // the block's first
    std::vector<std::size_t> node_teams, variable_teams, loop_teams;  // by node id, variable, loop whose body is run
    std::vector<bool> ordered;                              // by tensor: barriers order a block's accesses to it
    std::vector<bool> ordered_shared;                       // by recorded shared tile: the same
    std::vector<bool> ordered_alone, ordered_shared_alone;  // the same, of a warp's by itself
    /// Where `user` (null: the assignment to `variable`) needs `operand` in another layout than it has.
    struct Conversion {
        Ref user;
        int variable;
        Ref operand;
        Layout layout;
    };
    std::vector<Conversion> conversions;
    /// By node id: an operand of a product, or what it is seen through, that tensor cores read in shared memory.
    std::vector<bool> read_in_place;

    const Layout& layout(Ref node) const { return *layouts[static_cast<std::size_t>(node->id)]; }
    const Team& team_of(Ref node) const { return teams[node_teams[static_cast<std::size_t>(node->id)]]; }
    bool is_bound(Ref node) const { return bound[static_cast<std::size_t>(node->id)]; }
    bool in_place(Ref node) const {
        const auto i = static_cast<std::size_t>(node->id);
        return i < read_in_place.size() && read_in_place[i];
    }
    /// Whether barriers order a block's accesses, or those of a warp by itself. Tiles past the recorded ones are the
    /// lowering's own, and need it.
    bool needs_order(ir::Space space, int memory, bool alone) const {
        const auto i = static_cast<std::size_t>(memory);
        if (space == ir::Space::global) return alone ? ordered_alone[i] : ordered[i];
        return i >= ordered_shared.size() || (alone ? ordered_shared_alone[i] : ordered_shared[i]);
    }
    const Conversion* conversion(Ref user, Ref operand) const {
        for (const Conversion& c : conversions)
            if (c.user == user && c.user && c.operand == operand) return &c;
        return nullptr;
    }
};

/// Pass: which values are computed at their line, and which float into their only user. Dead values go.
void choose_bindings(const ir::Program& program, Plan& plan);

/// Pass: which operands of products the target's tensor cores read in shared memory.
void choose_engines(const ir::Program& program, const Target& target, Plan& plan);
/// Pass: the teams of threads, and which of them each tile and variable belongs to.
void find_teams(const ir::Program& program, Plan& plan);

/// Pass: a layout for every tile, by the rules of docs/design.md §2.8, and where layouts must be converted.
void choose_layouts(const ir::Program& program, const Target& target, Plan& plan);

/// Longest vector, in elements of the memory, that a piece's rows allow: it divides every fact known of the memory
/// along its contiguous tile axis. `axis` gets that tile axis, −1 if no axis of the piece is contiguous.
int longest_vector(const ir::Program& program, const ir::View& view, const Target& target, int& axis);

/// How the threads share a copy: vectors of `vector` elements along the tile's axis `axis`. Errors: UsageError if the
/// vectors would have fewer than 4 bytes.
Layout copy_layout(const ir::Program& program, const ir::Copy& copy, const Place& place, const Target& target,
                   int& axis, int& vector);

/// The boxes that the copy engine takes for a copy by a tensor map; without a name. Errors: UsageError that says what
/// it cannot do and what would help.
ir::TensorMap box_of(const ir::Program& program, const ir::Copy& copy, const Place& place);

/// A bulk copy's piece of these extents: a row of it, `vector` elements along the tile's axis `axis` (−1: none is
/// contiguous on both sides), for each thread of the first warp. Errors: UsageError that says what cannot be moved so
/// and what would help.
Layout bulk_layout(const ir::Program& program, const ir::Copy& copy, const Shape& extents, const Place& place,
                   const Target& target, int axis, int& vector);

/// Index into View::axes of each tile axis.
std::vector<int> tile_axes(const ir::View& view);

}  // namespace tessera::lower
