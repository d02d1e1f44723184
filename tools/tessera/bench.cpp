#include <cstdio>
#include <fmt/format.h>

#include "bench/compile_times.hpp"
#include "bench/report.hpp"
#include "dsl/base/error.hpp"
#include "runtime/device.hpp"
#include "runtime/settings.hpp"
#include "tools/tessera/commands.hpp"

namespace tessera::tool {

namespace {

/// Cases of a category, of a kernel, or all; a second word narrows them by their names.
std::vector<bench::Case> chosen(const std::string& what, const std::string& filter) {
    std::vector<bench::Case> cases;
    for (const bench::Category& category : bench::categories())
        for (bench::Case& c : category.cases())
            if ((what == "all" || what == category.name || what == c.kernel) &&
                c.name.find(filter) != std::string::npos)
                cases.push_back(std::move(c));
    if (cases.empty()) {
        std::string names;
        for (const bench::Category& category : bench::categories()) names += " " + category.name;
        throw UsageError(fmt::format("no case of {} matches; name a category ({}), a kernel of `tessera list`, or all",
                                     what, names.substr(1)));
    }
    return cases;
}

int on_host(const std::vector<bench::Case>& cases) {
    const Device host = Device::host();
    const Stream stream = host.stream();
    fmt::print("{}, checks {} (TESSERA_HOST_CHECK)\n{:<96} {:>16}\n", host.name(),
               runtime::setting_on("TESSERA_HOST_CHECK") ? "on" : "off", "case", "M elements/s");
    for (const bench::Case& c : cases)
        if (c.elements > 0)
            fmt::print("{:<96} {:>16.1f}\n", c.kernel + " " + c.name, bench::host_elements_per_second(stream, c) / 1e6);
    return 0;
}

}  // namespace

int bench(const BenchRequest& request) {
    if (request.compile) return bench::print_compile_times(Target::h200());
    const std::vector<bench::Case> cases = chosen(request.what, request.filter);
    if (request.host) return on_host(cases);
    const Device device = Device::parse(request.device);
    if (device.is_host())
        throw UsageError("device times need a GPU and there is none; use --host for the host executor's speed");
    const Stream stream = device.stream();
    bench::Runner runner(stream);
    const bench::Figures figures;
    std::vector<bench::Row> rows;
    fmt::print(
        "{} ({}), device time with cold L2: differences of graph replays, buffers rotated beyond four times the L2\n"
        "copy%: of a device copy of as many bytes; goal, ref: time over the goal's and the reference's; JIT ms (- "
        "cached); host us a launch\n{}",
        device.name(), device.target().arch(), bench::table_head());
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
