#pragma once

#include <string>

#include "tessera/dsl.hpp"

namespace tessera::test {

/// y = x for i32 [rows, columns], where ids from the given `limit` on are reported.
inline Program checked_copy(const std::string& name, std::int64_t columns) {
    return record(name.c_str(), [=](Kernel& k) {
        const Dim rows = k.dim("rows");
        const auto x = k.input<i32>("x", {rows, columns});
        const auto y = k.output<i32>("y", {rows, columns});
        const auto limit = k.scalar<i32>("limit");
        const auto [m] = k.grid(ceil_div(rows, 16));
        const auto piece = x.block({16, columns}, {m, 0});
        const auto v = load(piece);
        k.report(v >= limit, "an id is below the limit", piece, v);
        store(y.block({16, columns}, {m, 0}), v);
    });
}

}  // namespace tessera::test
