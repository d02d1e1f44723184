#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dsl/base/target.hpp"
#include "dsl/emit/memory_helpers.hpp"
#include "dsl/emit/product_helpers.hpp"

namespace tessera::emit {

/// A small device function that generated text may call.
struct Helper {
    std::string name;
    std::string text;
    std::vector<std::string> needs;  // helpers that it calls; they stand before it in the table
    int from_sm = 0;                 // of rows of one name, the last that the target reaches is meant
};

/// All of them, in the order in which they are printed.
std::span<const Helper> helper_table();

/// Parts of the table: conversions of the packed formats; tables of codes; products; asynchronous copies; roles;
/// reports; grid syncs.
std::vector<Helper> e2m1_helpers();
std::vector<Helper> e5m6_helpers();
std::vector<Helper> lookup_helpers();
std::vector<Helper> mma_helpers();
std::vector<Helper> copy_helpers();
std::vector<Helper> role_helpers();
Helper report_helper();
Helper grid_sync_helper();

/// The device functions that one translation unit uses.
class HelperSet {
public:
    explicit HelperSet(const Target& target = {});

    /// Marks a helper of the table, and what it needs, as used. Returns the name. Errors: InternalError if there is
    /// none.
    const std::string& use(std::string_view name);

    /// Marks an access helper as used; returns its function's name.
    std::string use(const MemoryHelper& helper);

    /// The same for one that starts a product.
    std::string use(const ProductHelper& helper);

    /// Text of all used ones, in fixed order.
    std::string text() const;

private:
    int sm_;
    std::vector<bool> used_;               // by table row
    std::vector<MemoryHelper> memory_;     // sorted, without duplicates
    std::vector<ProductHelper> products_;  // the same
};

}  // namespace tessera::emit
