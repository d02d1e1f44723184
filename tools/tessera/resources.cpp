#include "tools/tessera/resources.hpp"

#include <algorithm>
#include <fmt/format.h>

#include "dsl/ir/print.hpp"
#include "dsl/lower/bank_conflicts.hpp"
#include "runtime/cubin.hpp"

namespace tessera::tool {

namespace {

std::string line(const char* topic, const std::string& text) { return fmt::format("{}: {}\n", topic, text); }

/// "spills: 0" is what tests look for; a stack frame counts too, for it lies in the same slow memory.
std::string spills_line(const runtime::CubinFacts& facts, const std::string& log) {
    const auto spills = runtime::spills_in_log(log);
    const std::int64_t moved = spills ? spills->store_bytes + spills->load_bytes : 0;
    if (moved == 0 && facts.stack_bytes == 0) return line("spills", "0");
    return line("spills", fmt::format("{} bytes stored and loaded, stack frame of {} bytes", moved, facts.stack_bytes));
}

/// Lines of the log that warn, such as those about serialised tensor-core instructions (C75xx).
std::string warning_lines(const std::string& log) {
    std::string lines;
    for (std::size_t at = 0; at < log.size();) {
        const std::size_t end = std::min(log.find('\n', at), log.size());
        const std::string text = log.substr(at, end - at);
        if (text.find("warning") != std::string::npos || text.find("(C75") != std::string::npos)
            lines += line("warning", text);
        at = end + 1;
    }
    return lines;
}

/// One line for each access, so that a layout that serialises a warp is seen where it is written.
std::string bank_lines(const ir::Program& lowered) {
    std::string lines;
    for (const lower::SharedAccess& access : lower::bank_conflicts(lowered)) {
        lines += line(
            "shared access",
            fmt::format("{} {} at {}: {} bytes x {} lanes, {} passes, {} at best: bank conflicts {}",
                        access.store ? "store to" : "load from", access.tile, ir::print_place(access.place),
                        access.bytes, access.lanes, access.passes, access.at_best, access.passes - access.at_best));
    }
    return lines;
}

}  // namespace

std::string resources_text(const Compiled& compiled, const ir::Program& lowered) {
    std::string text = line("kernel", compiled.kernel) + line("target", compiled.target.arch());
    text += line("threads", fmt::format("{} a block", lowered.threads));
    for (const runtime::CubinFacts& facts : runtime::read_cubin(compiled.cubin)) {
        if (facts.kernel != compiled.kernel) continue;
        text += line("registers", fmt::format("{} a thread", facts.registers));
        text += spills_line(facts, compiled.log);
        text += line("shared memory",
                     fmt::format("{} bytes a block ({} static)",
                                 std::max(lowered.shared_bytes, facts.static_shared_bytes), facts.static_shared_bytes));
        text += line("instructions", fmt::format("{}", facts.instructions));
    }
    return text + bank_lines(lowered) + warning_lines(compiled.log);
}

}  // namespace tessera::tool
