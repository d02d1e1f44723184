#include <cstdio>
#include <fmt/format.h>

#include "dsl/base/error.hpp"
#include "dsl/emit/cuda.hpp"
#include "dsl/ir/print.hpp"
#include "dsl/lower/lower.hpp"
#include "runtime/compiled.hpp"
#include "tools/tessera/commands.hpp"
#include "tools/tessera/disassembler.hpp"
#include "tools/tessera/kernel_table.hpp"
#include "tools/tessera/resources.hpp"

namespace tessera::tool {

namespace {

std::string stage_text(const std::string& stage, const Program& program, const Target& target) {
    if (stage == "program") return ir::print(program.ir());
    if (stage == "lowered") return ir::print(lower::lower(program.ir(), target));
    if (stage == "cuda") return emit::cuda_text(lower::lower(program.ir(), target), target);
    if (stage == "ptx") return compile_for(program, target).ptx;
    if (stage == "resources") {
        return resources_text(compile_for(program, target), lower::lower(program.ir(), target));
    }
    if (stage == "sass") return disassemble(compile_for(program, target).cubin);
    throw UsageError(
        fmt::format("there is no stage {}; use program, lowered, cuda, ptx, resources or sass", json::shown(stage)));
}

}  // namespace

Target target_named(const std::string& arch) {
    for (const Target& target : {Target::h200(), Target::b200()}) {
        if (arch == target.arch()) return target;
    }
    throw UsageError(fmt::format("there is no target {}; use sm_90a or sm_100a", json::shown(arch)));
}

int show(const ShowRequest& request) {
    const KernelEntry* kernel = find_kernel(request.kernel);
    if (!kernel) {
        throw UsageError(fmt::format("there is no kernel {}; `tessera list` names them", json::shown(request.kernel)));
    }
    const Arguments args = Arguments::from_words(request.options);
    const Target target = target_named(request.arch);
    if (const auto later = check_options(*kernel, args, {"in", "aligned"}))
        throw UsageError(*later + "; choose another value");
    const std::string text = stage_text(request.stage, program_of(*kernel, args, target), target);
    std::fputs(text.c_str(), stdout);
    if (!text.empty() && text.back() != '\n') std::fputc('\n', stdout);
    return 0;
}

}  // namespace tessera::tool
