#include <fmt/format.h>

#include "dsl/base/error.hpp"
#include "dsl/emit/statement.hpp"
#include "dsl/ir/tensor_core.hpp"

// Products that tensor cores make on their own: started, and waited for.

namespace tessera::emit {

/// `matrix<128>(weights + offset)`
Text Statements::matrix(int tile, ir::Ref offset) {
    require_internal(tile >= 0 && static_cast<std::size_t>(tile) < program_.shared.size(),
                     "an operand in a shared tile that does not exist");
    ir::Access at;
    at.space = ir::Space::shared;
    at.memory = tile;
    at.offset = offset;
    const std::int64_t bytes = ir::row_bytes(program_.shared[static_cast<std::size_t>(tile)]);
    return {fmt::format("{}<{}>({})", helpers_.use("matrix"), bytes, address(at).text)};
}

void Statements::print(const ir::WarpgroupMma& p) {
    const Element type = program_.shared.at(static_cast<std::size_t>(p.b_tile)).type;
    const ProductHelper helper{type, p.columns, !p.a.empty()};
    std::string line = fmt::format("{}(&{}, {}, ", helpers_.use(helper), array_word(p.array, p.into, 0), p.rows_apart);
    if (p.a.empty()) line += matrix(p.a_tile, p.a_offset).text + ", ";
    for (ir::Ref word : p.a) line += expressions_.word(word).relax().text + ", ";
    writer_.line(line + matrix(p.b_tile, p.b_offset).text + ");");
}

void Statements::print(const ir::MmaFence& fence) {
    for (int id : fence.arrays)
        writer_.line(helpers_.use("hold") + "(" + names_.arrays[static_cast<std::size_t>(id)] + ");");
    writer_.line(helpers_.use("fence_mma") + "();");
}

void Statements::print(const ir::MmaWait& wait) {
    writer_.line(helpers_.use("wait_mma") + "();");
    for (int id : wait.arrays)
        writer_.line(helpers_.use("hold") + "(" + names_.arrays[static_cast<std::size_t>(id)] + ");");
}

void Statements::print(const ir::ProxyFence&) { writer_.line(helpers_.use("fence_proxy") + "();"); }

}  // namespace tessera::emit
