#include <fmt/format.h>

#include "dsl/base/error.hpp"
#include "dsl/emit/statement.hpp"

// Asynchronous copies to shared memory, and what waits for them.

namespace tessera::emit {

void Statements::print(const ir::CopyVector& copy) {
    if (copy.mbarriers >= 0) return print_bulk(copy);
    const int bytes = copy.from.lanes * bits_of(element_of(copy.from)) / 8;
    require_internal(bytes == 4 || bytes == 8 || bytes == 16, "an asynchronous copy of a size that has no instruction");
    const std::string& name = helpers_.use(fmt::format("copy_{}_async", bytes));
    const Text in = copy.from.predicate ? expressions_.scalar(copy.from.predicate).relax() : Text{"true"};
    const std::string guard =
        copy.to.predicate ? fmt::format("if ({}) ", expressions_.scalar(copy.to.predicate).text) : "";
    writer_.line(
        fmt::format("{}{}({}, {}, {});", guard, name, in.text, address(copy.to).text, address(copy.from).text));
}

void Statements::print_bulk(const ir::CopyVector& copy) {
    std::string guard;
    for (const ir::Ref predicate : {copy.to.predicate, copy.from.predicate})
        if (predicate != nullptr)
            guard += (guard.empty() ? "" : " && ") + within(expressions_.scalar(predicate), Precedence::logical_and);
    if (!guard.empty()) guard = "if (" + guard + ") ";
    const int bytes = copy.from.lanes * bits_of(element_of(copy.from)) / 8;
    writer_.line(fmt::format("{}{}({}, {}, {}, {});", guard, helpers_.use("copy_bulk"),
                             mbarrier(copy.mbarriers, copy.stage), address(copy.to).text, address(copy.from).text,
                             bytes));
}

/// The mbarrier counts the whole box, whatever of it is inside.
void Statements::print(const ir::CopyBox& copy) {
    require_internal(copy.map >= 0 && static_cast<std::size_t>(copy.map) < program_.maps.size(),
                     "a tensor map that does not exist");
    const ir::TensorMap& map = program_.maps[static_cast<std::size_t>(copy.map)];
    const auto tile = static_cast<std::size_t>(copy.tile);
    const Text offset = expressions_.scalar(copy.offset).relax();
    const std::string& base = names_.shared[tile];
    const std::string to = offset.text == "0" ? base : infix({base}, "+", offset, Precedence::sum, true).text;
    std::string coordinates;
    for (const ir::Ref number : copy.from) coordinates += ", " + expressions_.scalar(number).relax().text;
    writer_.line(fmt::format("if ({}) {}({}, {}, {}, {}{});", expressions_.scalar(copy.predicate).text,
                             helpers_.use(fmt::format("copy_box_{}d", copy.from.size())),
                             mbarrier(copy.mbarriers, copy.stage), to, names_.maps[static_cast<std::size_t>(copy.map)],
                             map.box.count() * bits_of(program_.shared[tile].type) / 8, coordinates));
}

/// `full + stage`
std::string Statements::mbarrier(int tile, ir::Ref stage) {
    require_internal(tile >= 0 && static_cast<std::size_t>(tile) < program_.shared.size() && stage != nullptr,
                     "an mbarrier that does not exist");
    const Text index = expressions_.scalar(stage).relax();
    const std::string& base = names_.shared[static_cast<std::size_t>(tile)];
    return index.text == "0" ? base : infix({base}, "+", index, Precedence::sum, true).text;
}

void Statements::print(const ir::WaitCopies& wait) {
    if (wait.first_warp) {
        require_internal(role_ != nullptr, "a wait of a role's first warp outside of roles");
        const std::string from = role_->first_warp > 0 ? fmt::format(" - {}", role_->first_thread()) : "";
        return writer_.line(fmt::format("if (threadIdx.x{} < 32) {}({}, {});", from, helpers_.use("wait_mbarrier"),
                                        mbarrier(wait.mbarriers, wait.stage),
                                        expressions_.scalar(wait.parity).relax().text));
    }
    if (wait.mbarriers >= 0)
        return writer_.line(fmt::format("{}({}, {});", helpers_.use("wait_mbarrier"),
                                        mbarrier(wait.mbarriers, wait.stage),
                                        expressions_.scalar(wait.parity).relax().text));
    if (wait.pending == 0) return writer_.line(helpers_.use("wait_copies") + "();");
    writer_.line(fmt::format("{}<{}>();", helpers_.use("wait_copies_but"), wait.pending));
}

void Statements::print(const ir::CommitCopies& commit) {
    if (commit.mbarriers < 0) return writer_.line(helpers_.use("commit_copies") + "();");
    const std::string where = mbarrier(commit.mbarriers, commit.stage);
    if (role_ && role_->first_warp > 0)
        return writer_.line(
            fmt::format("{}({}, {});", helpers_.use("arrive_mbarrier_from"), where, role_->first_thread()));
    writer_.line(helpers_.use("arrive_mbarrier") + "(" + where + ");");
}

void Statements::print(const ir::InitMbarriers& init) {
    const auto tile = static_cast<std::size_t>(init.mbarriers);
    require_internal(tile < program_.shared.size(), "mbarriers that do not exist");
    writer_.line(fmt::format("if (threadIdx.x == 0) {}({}, {}, {});", helpers_.use("init_mbarriers"),
                             names_.shared[tile], program_.shared[tile].shape[0], init.arrivals));
}

}  // namespace tessera::emit
