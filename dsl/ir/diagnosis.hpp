#pragma once

#include "dsl/ir/program.hpp"

namespace tessera::ir::detail {

/// Where verification stands, for the text of what it finds.
struct Diagnosis {
    const Program& program;
    const Statement* statement = nullptr;  // null: the program's tables

    /// Errors: InternalError naming the rule, the program, the statement and the node (which may be null).
    [[noreturn]] void fail(const char* rule, Ref node, const char* why) const;

    void require(bool holds, const char* rule, Ref node, const char* why) const {
        if (!holds) fail(rule, node, why);
    }
};

/// Rules that a node keeps by itself: its stage, and types and shapes of what it is made of.
void verify_node(const Diagnosis& at, const Node& node);

/// Rules of a view; gives the extents of its tile. `node` is the load it belongs to, null for a store.
Shape verify_view(const Diagnosis& at, const View& view, Ref node);

class Scopes;
/// Rules of the program's tables: parameters, grid, shared tiles, register arrays, names.
void verify_tables(const Program& program, Scopes& scopes);

/// Rules of an instruction of four warps, but for its expressions and the registers of its result.
void verify_product(const Diagnosis& at, const WarpgroupMma& product);
/// Lowered: what products under way use stays as it is until they are waited for, and they see what came before.
void verify_products(const Program& program);
/// Lowered: barriers, arrivals, products and shuffles stand where all threads that they need come together.
void verify_control(const Program& program);

bool has_arithmetic(Element type);
/// Rank 0 and made of parameters and constants alone.
bool known_at_launch(Ref node);

}  // namespace tessera::ir::detail
