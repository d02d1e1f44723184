#include <catch2/catch.hpp>

#include "dsl/host/executor.hpp"
#include "dsl/lower/lower.hpp"
#include "tests/support/programs/device_launch.hpp"
#include "tests/support/programs/launch.hpp"

// Random small programs: recorded, lowered and executed lane by lane, against whole tiles computed from the recording.

namespace {

using namespace tessera;
using namespace tessera::test;

void run_on_host(const ProgramCase& c, const Target& target, const Buffers& buffers) {
    const auto lowered = std::make_shared<const ir::Program>(lower::lower(c.program.ir(), target));
    const host::Executable executable(lowered);
    host::Settings settings;
    settings.workers = 1;
    executable.run({buffers.bases(), c.scalars}, settings);
}

void check_programs(const Target& target, std::uint64_t first, std::uint64_t count) {
    for (std::uint64_t seed = first; seed < first + count; ++seed) {
        const ProgramCase c = random_program(seed);
        INFO("seed " << seed);
        CHECK(disagreement(c, [&](const Buffers& buffers) { run_on_host(c, target, buffers); }) == "");
    }
}

}  // namespace

TEST_CASE("random programs mean the same lane by lane, lowered for the H200", "[random]") {
    check_programs(Target::h200(), 0, 400);
}

TEST_CASE("random programs mean the same lane by lane, lowered for the B200", "[random]") {
    check_programs(Target::b200(), 1000, 100);
}

TEST_CASE("random programs mean the same when the engine launches them", "[random]") {
    for (std::uint64_t seed = 2000; seed < 2040; ++seed) {
        INFO("seed " << seed);
        CHECK(check_on_device(Device::host(), seed) == "");
    }
}

TEST_CASE("a seed gives the same program and the same inputs every time", "[random]") {
    const ProgramCase a = random_program(5), b = random_program(5);
    CHECK(a.scalars == b.scalars);
    CHECK(a.tensors == b.tensors);
    CHECK(a.program.ir().arena->size() == b.program.ir().arena->size());
}
