#include <cstdio>
#include <fcntl.h>
#include <filesystem>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <set>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/compile_times.hpp"
#include "bench/launch_cost.hpp"
#include "bench/report.hpp"
#include "bench/start_up.hpp"
#include "dsl/base/error.hpp"
#include "runtime/device.hpp"
#include "runtime/settings.hpp"
#include "tools/tessera/commands.hpp"

namespace tessera::tool {

namespace {

std::string first_word(const std::string& text) { return text.substr(0, text.find(' ')); }

/// First words of the rows whose kernel may have been meant; of all, if none is like it.
std::set<std::string> kernels_like(const std::string& what) {
    std::set<std::string> like, all;
    for (const bench::Category& category : bench::categories())
        for (const bench::Case& c : category.cases()) {
            const std::string word = first_word(c.kernel);
            all.insert(word);
            if (word.find(what) != std::string::npos || what.find(word) != std::string::npos) like.insert(word);
        }
    return like.empty() ? all : like;
}

/// Cases of a category, of a kernel (the first word of their rows), or all; a filter narrows them by their names.
std::vector<bench::Case> chosen(const std::string& what, const std::string& filter) {
    std::vector<bench::Case> cases;
    std::vector<std::string> categories;
    for (const bench::Category& category : bench::categories()) {
        categories.emplace_back(category.name);
        for (bench::Case& c : category.cases())
            if ((what == "all" || what == category.name || c.kernel == what || first_word(c.kernel) == what) &&
                c.name.find(filter) != std::string::npos)
                cases.push_back(std::move(c));
    }
    if (!cases.empty()) return cases;
    if (!filter.empty()) {
        const std::vector<bench::Case> unfiltered = chosen(what, "");
        throw UsageError(fmt::format(
            "no case of {} has \"{}\" in its name; names are such as \"{}\", as `tessera bench` prints them", what,
            filter, unfiltered.front().name));
    }
    throw UsageError(fmt::format("there are no cases of {}; name all, a category ({}), or the kernel of a row: {}",
                                 what, fmt::join(categories, ", "), fmt::join(kernels_like(what), ", ")));
}

int on_host(const std::vector<bench::Case>& cases) {
    const Device host = Device::host();
    const Stream stream = host.stream();
    fmt::print("{}, checks {} (TESSERA_HOST_CHECK)\n{:<96} {:>16}\n", host.name(),
               runtime::setting_on("TESSERA_HOST_CHECK") ? "on" : "off", "case", "M elements/s");
    std::fflush(stdout);
    for (const bench::Case& c : cases) {
        if (c.elements == 0) continue;
        fmt::print("{:<96} {:>16.1f}\n", c.kernel + " " + c.name, bench::host_elements_per_second(stream, c) / 1e6);
        std::fflush(stdout);
    }
    return 0;
}

/// Standard output of this program run anew with these words.
std::string output_of(std::vector<std::string> words) {
    std::error_code error;
    words.insert(words.begin(), std::filesystem::read_symlink("/proc/self/exe", error).native());
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    int ends[2] = {};
    if (error || ::pipe2(ends, O_CLOEXEC) != 0) throw UsageError("a new process cannot be started: no pipe");
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
    pid_t child = 0;
    const int failed = ::posix_spawn(&child, arguments[0], &actions, nullptr, arguments.data(), environ);
    posix_spawn_file_actions_destroy(&actions);
    ::close(ends[1]);
    std::string output;
    char piece[1024];
    for (ssize_t got = 0; (got = ::read(ends[0], piece, sizeof piece)) > 0;)
        output.append(piece, static_cast<std::size_t>(got));
    ::close(ends[0]);
    int status = 0;
    if (failed != 0 || ::waitpid(child, &status, 0) != child || status != 0)
        throw UsageError(fmt::format("{} failed in a process of its own", fmt::join(words, " ")));
    return output;
}

/// Every process is new; the first of each kernel fills the cache and does not count.
int start_up(const std::string& device) {
    constexpr int processes = 15;
    fmt::print("first launch in a new process with a warm disk cache, medians of {} processes{}\n{}", processes,
               Device::parse(device).is_host() ? "; without a GPU nothing is loaded or launched" : ", the driver up",
               bench::start_up_head());
    for (const std::string& kernel : bench::start_up_kernels()) {
        std::vector<bench::StartUp> times;
        for (int i = 0; i <= processes; ++i)
            times.push_back(bench::start_up_from(output_of({"bench", "--device", device, "--start-up-once", kernel})));
        times.erase(times.begin());
        for (const bench::StartUp& t : times)
            if (t.compile > 0) throw UsageError("the disk cache does not keep kernels; look at `tessera doctor`");
        fmt::print("{}", bench::start_up_row(kernel, times));
        std::fflush(stdout);
    }
    return 0;
}

/// What a measurement would pass over in silence is refused.
void refuse_unused(const BenchRequest& request) {
    const char* own = nullptr;
    for (const auto& [asked, option] : {std::pair{request.compile, "--compile"}, std::pair{request.launch, "--launch"},
                                        std::pair{request.start_up, "--start-up"}}) {
        if (asked && own) throw UsageError(fmt::format("{} and {} measure different things; name one", own, option));
        if (asked) own = option;
    }
    if (own && request.host) throw UsageError(fmt::format("{} and --host measure different things; name one", own));
    if (own && request.what != "all")
        throw UsageError(fmt::format("{} has kernels of its own and takes no \"{}\"; leave it out", own, request.what));
    if ((request.compile || request.host) && request.device != "best")
        throw UsageError(fmt::format(
            "{} takes no --device; leave it out",
            request.host ? "--host runs on the CPU as an H200 would and" : "--compile makes kernels for an H200 and"));
    if (!own && request.host) own = "--host";
    if (own && request.clock != "auto")
        throw UsageError(fmt::format("{} measures no device time and takes no --clock; leave it out", own));
    if (own && !(request.json.empty() && request.compare.empty()))
        throw UsageError(fmt::format("{} has no rows for {}, which keeps device times; leave one of them out", own,
                                     request.json.empty() ? "--compare" : "--json"));
}

}  // namespace

int bench(const BenchRequest& request) {
    if (!request.once.empty()) {
        fmt::print("{}", bench::start_up_line(bench::start_up_here(Device::parse(request.device), request.once)));
        return 0;
    }
    refuse_unused(request);
    if (request.start_up) return start_up(request.device);
    if (request.launch) {
        const Stream stream = Device::parse(request.device).stream();
        fmt::print("{}, medians of host time\n{}", stream.device().name(),
                   bench::launch_cost_text(bench::launch_cost(stream)));
        return 0;
    }
    if (request.compile) return bench::print_compile_times(Target::h200());
    const std::vector<bench::Case> cases = chosen(request.what, request.filter);
    if (request.host) return on_host(cases);
    const Device device = Device::parse(request.device);
    if (device.is_host())
        throw UsageError(
            "device times need a GPU and there is none; use --host for the host executor's speed, or --compile for "
            "what making kernels costs");
    const Stream stream = device.stream();
    bench::Runner runner(stream, bench::clock_kind(request.clock));
    const bench::Figures figures;
    std::vector<bench::Row> rows;
    if (!runner.clock().remark().empty()) fmt::print("{}\n", runner.clock().remark());
    fmt::print(
        "{} ({}), device time with cold L2: {}, buffers rotated beyond four times the L2\n"
        "copy%: of a device copy of as many bytes; goal, ref: time over the goal's and the reference's; JIT ms (- "
        "cached); host us a launch\n{}",
        device.name(), device.target().arch(), runner.clock().description(), bench::table_head());
    for (const bench::Case& c : cases) {
        rows.push_back(runner.run(c));
        figures.fill(rows.back());
        fmt::print("{}", bench::table_row(rows.back()));
        std::fflush(stdout);
    }
    if (!request.json.empty()) bench::write_json(request.json, device.name(), rows);
    if (request.compare.empty()) return 0;
    const auto slower = bench::compare(request.compare, rows);
    for (const bench::Regression& r : slower)
        fmt::print("slower: {} {}: {:.2f} times {}, noise {:.0f}%\n", r.row->kernel, r.row->name, r.ratio,
                   request.compare, 100 * r.noise);
    if (slower.empty()) fmt::print("no case is slower than in {}\n", request.compare);
    return slower.empty() ? 0 : 1;
}

}  // namespace tessera::tool
