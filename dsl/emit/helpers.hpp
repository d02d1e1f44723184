#pragma once

#include <span>
#include <string>
#include <vector>

#include "dsl/emit/memory_helpers.hpp"

namespace tessera::emit {

/// A small device function that generated text may call.
struct Helper {
    const char* name;
    std::string text;
    std::vector<const char*> needs;  // helpers that it calls; they stand before it in the table
};

/// All of them, in the order in which they are printed.
std::span<const Helper> helper_table();

/// The device functions that one translation unit uses.
class HelperSet {
public:
    HelperSet();

    /// Marks a helper of the table, and what it needs, as used. Returns the name. Errors: InternalError if there is
    /// none.
    const char* use(const char* name);

    /// Marks an access helper as used; returns its function's name.
    std::string use(const MemoryHelper& helper);

    /// Text of all used ones, in fixed order.
    std::string text() const;

private:
    std::vector<bool> used_;            // by table row
    std::vector<MemoryHelper> memory_;  // sorted, without duplicates
};

}  // namespace tessera::emit
