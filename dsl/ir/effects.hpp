#pragma once

#include <compare>
#include <vector>

#include "dsl/ir/statement.hpp"

namespace tessera::ir {

/// A tensor or a shared tile of the program.
struct MemoryId {
    Space space;
    int memory;  // index into Program::tensors or Program::shared

    friend auto operator<=>(const MemoryId&, const MemoryId&) = default;
};

/// What a statement touches: sorted, each once. Indices are those of the program's tables.
struct Effects {
    std::vector<MemoryId> memories;
    std::vector<int> arrays;     // register arrays
    std::vector<int> variables;  // recorded
    std::vector<int> locals;     // lowered: Let ids

    bool touches(MemoryId memory) const;
    bool touches_space(Space space) const;
    /// True if some memory, array, variable or local is in both.
    bool meets(const Effects& other) const;
    bool empty() const;
    void add(const Effects& other);

    friend bool operator==(const Effects&, const Effects&) = default;
};

/// What the statement reads when it runs; for a loop, its bounds and everything in its body.
/// A load or a variable is read by the Bind whose value it is, not by later users of the bound tile.
Effects reads_of(const Statement& statement);

/// What the statement writes, wholly or in part; a Declare writes its array, a Let its local. For a loop, its body's
/// union. A Barrier, GridSync, KernelAheadWait or ProxyFence writes nothing and a WaitCopies reads at most its
/// mbarriers, yet nothing in shared or global memory may be moved across any of them; nor may uses of its arrays across
/// an MmaFence or MmaWait.
Effects writes_of(const Statement& statement);

}  // namespace tessera::ir
