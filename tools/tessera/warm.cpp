#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <fstream>
#include <iostream>
#include <mutex>
#include <set>
#include <thread>

#include "dsl/base/error.hpp"
#include "runtime/compiler.hpp"
#include "runtime/device.hpp"
#include "runtime/driver/driver.hpp"
#include "tools/tessera/commands.hpp"
#include "tools/tessera/in_parallel.hpp"
#include "tools/tessera/progress.hpp"
#include "tools/tessera/warm_list.hpp"

namespace tessera::tool {

namespace {

struct Recorded {
    int line;
    Program program;
    Target target;
};

std::vector<Target> targets_of(const std::vector<std::string>& names) {
    std::vector<Target> targets;
    std::set<std::string> met;
    for (const std::string& name : names)
        if (met.insert(name).second) targets.push_back(target_named(name));
    if (!targets.empty()) return targets;
    if (runtime::driver().usable) return {Device::cuda(0).target()};
    return {Target::h200(), Target::b200()};
}

constexpr const char* standard_input = "standard input";

std::vector<WarmItem> read_list(const std::string& file) {
    if (file == standard_input) return read_warm_list(std::cin, file);
    std::error_code error;
    if (std::filesystem::is_directory(file, error))
        throw UsageError(fmt::format("the list {} is a folder; name a file with a line for each kernel", file));
    std::ifstream text(file);
    if (!text) throw UsageError(fmt::format("the list {} cannot be read; check the path", file));
    return read_warm_list(text, file);
}

/// All of them before anything is compiled, so that a wrong line costs no time.
std::vector<Recorded> record_all(const std::vector<WarmItem>& items, const std::vector<Target>& targets,
                                 const std::string& file) {
    std::vector<Recorded> all;
    for (const WarmItem& item : items) {
        for (const Target& target : targets) {
            try {
                all.push_back({item.line, program_of(*item.kernel, item.args, target), target});
            } catch (const UsageError& error) {
                throw UsageError(fmt::format("{}:{}: {}", file, item.line, error.what()));
            }
        }
    }
    return all;
}

/// Compiles them; what went wrong, in the order of the lines.
std::vector<std::string> compile_all(runtime::Compiler& compiler, const std::vector<Recorded>& all, std::size_t threads,
                                     const std::string& file) {
    Progress progress("compiling", all.size());
    std::mutex mutex;
    std::vector<std::string> problems(all.size());
    in_parallel(all.size(), threads, [&](std::size_t i) {
        try {
            const auto lowered = runtime::lowered_for(all[i].program.ir(), all[i].target, compiler.counters());
            runtime::CounterSet ignored;  // the compiler keeps its own
            (void)runtime::compile_lowered(compiler, *lowered, all[i].target, ignored);
        } catch (const std::exception& error) {
            problems[i] = fmt::format("{}:{}: {}", file, all[i].line, error.what());
        }
        const std::lock_guard lock(mutex);
        progress.add(1);
    });
    std::erase(problems, "");
    return problems;
}

std::string names_of(const std::vector<Target>& targets) {
    std::vector<std::string> names;
    for (const Target& target : targets) names.emplace_back(target.arch());
    return fmt::format("{}", fmt::join(names, " and "));
}

}  // namespace

int cache_warm(const CacheWarmRequest& request) {
    runtime::CacheSettings settings = runtime::CacheSettings::from_environment();
    if (!settings.enabled) throw UsageError("the cubin cache is switched off; unset TESSERA_CACHE");
    settings.bundle.clear();  // what a bundle has would not get into the folder
    runtime::Compiler compiler(settings);

    const std::vector<Target> targets = targets_of(request.architectures);
    const std::string list = request.list == "-" ? standard_input : request.list;
    const std::vector<Recorded> all = record_all(read_list(list), targets, list);
    const auto threads = request.jobs > 0 ? static_cast<std::size_t>(request.jobs)
                                          : std::max<std::size_t>(1, std::thread::hardware_concurrency());
    const auto begin = std::chrono::steady_clock::now();
    const std::vector<std::string> problems = compile_all(compiler, all, threads, list);
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();

    for (const std::string& problem : problems) fmt::print(stderr, "tessera: {}\n", problem);
    const Counters counters = compiler.counters().values();
    const std::int64_t failed = static_cast<std::int64_t>(problems.size());
    const std::int64_t unkept = compiler.cache().stats().failed;
    fmt::print("{} kernels for {}: {} compiled, {} there already", all.size(), names_of(targets),
               counters.compiles - failed, counters.disk_hits + counters.memory_hits);
    if (failed > 0) fmt::print(", {} failed", failed);
    if (unkept > 0) fmt::print(", {} not kept", unkept);
    fmt::print("; {:.1f} s, {} at a time, in {}\n", seconds, threads, settings.folder.string());
    return failed + unkept > 0 ? 1 : 0;
}

}  // namespace tessera::tool
