#include <cstdio>
#include <fmt/format.h>

#include "dsl/base/error.hpp"
#include "tools/tessera/commands.hpp"
#include "tools/tessera/verdict.hpp"

namespace tessera::tool {

namespace {

struct Counts {
    int passed = 0, failed = 0, skipped = 0;
};

void verify_file(const std::string& path, const Stream& stream, bool skip_unknown, Counts& counts) {
    try {
        const Case the_case = load_case(path);
        std::string why;
        const KernelEntry* kernel = kernel_for(the_case, why);
        if (!kernel && skip_unknown) {
            ++counts.skipped;
            fmt::print("skipped  {}: {}\n", path, why);
            return;
        }
        if (!kernel) throw UsageError(fmt::format("{}: {}; leave the file out or give --skip-unknown", path, why));
        const auto wrong = judge(*kernel, the_case, kernel->run(stream, the_case));
        if (!wrong) {
            ++counts.passed;
            fmt::print("ok       {}\n", path);
            return;
        }
        fmt::print("FAILED   {}: {}\n", path, *wrong);
    } catch (const Error& error) {
        fmt::print("FAILED   {}\n", error.what());
    }
    ++counts.failed;
}

}  // namespace

int verify(const VerifyRequest& request) {
    const Device device = Device::parse(request.device);
    const Stream stream = device.stream();
    Counts counts;
    for (const std::string& path : request.files) {
        verify_file(path, stream, request.skip_unknown, counts);
        std::fflush(stdout);
    }
    fmt::print("{} passed, {} failed, {} skipped on {}\n", counts.passed, counts.failed, counts.skipped, device.name());
    if (counts.passed + counts.failed == 0) {
        std::fflush(stdout);
        throw UsageError("no case was run, so nothing is verified; give files of kernels that `tessera list` names");
    }
    return counts.failed == 0 ? 0 : 1;
}

}  // namespace tessera::tool
