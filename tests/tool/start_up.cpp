// tessera bench --start-up and --launch: what is carried between processes, and what needs a GPU.
#include "bench/start_up.hpp"

#include <catch2/catch.hpp>

#include "bench/launch_cost.hpp"
#include "runtime/nvrtc/find.hpp"
#include "tests/tool/support.hpp"

namespace tessera::tool_test {
namespace {

using bench::StartUp;

TEST_CASE("the times of a start-up go from one process to another and into a row of medians") {
    const StartUp times{0.125, 0.25, 0.5, 1, 2, 4, 8, 0, 15.875};
    CHECK(bench::start_up_line(times) == "0.125 0.25 0.5 1 2 4 8 15.875 0\n");
    const StartUp read = bench::start_up_from(bench::start_up_line(times));
    CHECK(read.digest == 1);
    CHECK(read.launch == 8);
    CHECK(read.total == 15.875);
    CHECK(usage_error([] { bench::start_up_from("1 2 3"); }) ==
          "a process of the start-up bench failed and printed \"1 2 3\"");

    StartUp slow = times, fast = times;
    slow.total = 900, fast.total = 3;
    const std::string row = bench::start_up_row("k", {slow, times, fast});
    CHECK(row.substr(0, 2) == "k ");
    CHECK(row.substr(row.size() - 6) == "15.88\n");
    CHECK(row.size() == bench::start_up_head().size());
}

TEST_CASE("a start-up is measured up to the machine code where there is no GPU") {
    CHECK(usage_error([] {
              bench::start_up_here(Device::host(), "nothing");
          }).find("there is no start-up of nothing; use one of per_token_cast, ") == 0);
    if (!runtime::nvrtc_search().path) return;
    for (const std::string& kernel : bench::start_up_kernels()) {
        const StartUp times = bench::start_up_here(Device::host(), kernel);
        CHECK(times.record > 0);
        CHECK(times.lower > 0);
        CHECK(times.emit > 0);
        CHECK(times.digest > 0);
        CHECK(times.disk > 0);
        CHECK(times.load == 0);
        CHECK(times.total >= times.record + times.lower + times.emit + times.digest + times.disk + times.compile);
    }
}

TEST_CASE("the cost of a launch needs a GPU, and is told against the bare call") {
    CHECK(usage_error([] { bench::launch_cost(Device::host().stream()); }).find("there is no GPU; name one") !=
          std::string::npos);
    const std::string text = bench::launch_cost_text({2.0, 2.25, 2.5, 3.0, 4.0, 2.125, 2.1875});
    CHECK(text.find("2.25 us  +0.25  goal +0.50") != std::string::npos);
    CHECK(text.find("3.00 us  +1.00  goal +1.50") != std::string::npos);
    CHECK(text.find("asking for the current context before") != std::string::npos);
    CHECK(text.find("2.19 us  +0.19") != std::string::npos);
}

}  // namespace
}  // namespace tessera::tool_test
