#include "tests/bench/cupti/cupti.hpp"

#include <catch2/catch.hpp>
#include <dlfcn.h>
#include <filesystem>
#include <string>

#include "bench/cupti/busy_times.hpp"
#include "bench/cupti/find.hpp"
#include "bench/cupti/recorder.hpp"
#include "bench/device_clock.hpp"
#include "dsl/base/error.hpp"
#include "runtime/device.hpp"
#include "runtime/stream.hpp"
#include "tests/support/scoped_environment.hpp"

using namespace tessera;
using namespace tessera::bench;
using Catch::Matchers::Contains;

namespace {

constexpr std::uint32_t copy_kind = 1, fill_kind = 2, overhead_kind = 17, kernel_kind = 10;

/// The controls of the CUPTI that TESSERA_CUPTI names, as new.
fake::CuptiControl& fake_cupti() {
    static void* const library = dlopen(FAKE_CUPTI, RTLD_NOW);
    auto& control = *reinterpret_cast<fake::CuptiControl* (*)()>(dlsym(library, "fake_cupti_control"))();
    const std::uint64_t clock = control.clock;
    control = {};
    control.clock = clock;
    return control;
}

const std::vector<fake::Activity> one_fill = {{fill_kind, 100, 1100}};

/// 200 launches, each a fill of 300 ns and a kernel of 2,000 ns that begins 50 ns before the fill ends; every fourth
/// kernel takes 4,000.
std::vector<fake::Activity> two_hundred_launches() {
    std::vector<fake::Activity> all;
    for (std::uint64_t i = 0; i < 200; ++i) {
        const std::uint64_t at = 1000 + i * 20'000;
        all.push_back({fill_kind, at, at + 300});
        all.push_back({kernel_kind, at + 250, at + 250 + (i % 4 == 3 ? 4000u : 2000u)});
    }
    return all;
}

struct OnFakes {
    test::ScopedEnvironment named{{"TESSERA_CUPTI", FAKE_CUPTI}};
    Stream stream = Device::cuda(0).stream();
};

}  // namespace

TEST_CASE("CUPTI's records of kernels, copies and fills are read, whatever their length, in order of their begin") {
    fake::CuptiControl& control = fake_cupti();
    cupti::Recorder recorder(FAKE_CUPTI);
    CHECK(recorder.name() == "CUPTI 13.0");
    for (const std::size_t bytes : {88, 96, 216, 400}) {
        control.record_bytes = bytes;
        control.deliveries = {{{kernel_kind, 500, 900}, {overhead_kind, 1, 2}, {copy_kind, 100, 300}}};
        int ran = 0;
        const auto activities = recorder.record([&] {
            ++ran;
            CHECK(control.kinds_enabled == 3);
        });
        CHECK(ran == 1);
        CHECK(control.kinds_enabled == 0);
        REQUIRE(activities.size() == 2);
        CHECK(activities[0].end - activities[0].begin == 200);
        CHECK(activities[1].begin - activities[0].begin == 400);
        CHECK(activities[1].end - activities[1].begin == 400);
    }
    CHECK(recorder.record([] {}).empty());
}

TEST_CASE("what CUPTI refuses, loses or garbles is a sentence, and tracing is off afterwards") {
    fake::CuptiControl& control = fake_cupti();
    cupti::Recorder recorder(FAKE_CUPTI);
    const auto record = [&] { recorder.record([] {}); };
    control.fails = "cuptiActivityEnable", control.result = 35;
    CHECK_THROWS_WITH(record(), Contains("cuptiActivityEnable gives CUPTI_ERROR_INSUFFICIENT_PRIVILEGES (35)"));
    control.fails = "cuptiActivityGetNextRecord", control.result = 21, control.deliveries = {one_fill};
    CHECK_THROWS_WITH(record(), Contains("cuptiActivityGetNextRecord gives CUPTI_ERROR_OF_THE_FAKE (21)"));
    control.fails = "", control.dropped = 7;
    CHECK_THROWS_WITH(record(), Contains("has lost 7 records"));
    control.dropped = 0;
    for (const fake::Activity& wrong :
         {fake::Activity{kernel_kind, 100, 99}, fake::Activity{kernel_kind, 100, 12'000'000}}) {
        control.deliveries = {{wrong}};
        CHECK_THROWS_WITH(record(), Contains("gives a record from"));
    }
    CHECK_THROWS_WITH(recorder.record([] { throw UsageError("the body's own"); }), "the body's own");
    CHECK(control.kinds_enabled == 0);
}

TEST_CASE("only versions whose records are known are read") {
    for (const std::uint32_t version : {19u, 28u, 130000u, 130201u, 139999u}) {
        fake_cupti().version = version;
        CHECK_NOTHROW(cupti::Recorder(FAKE_CUPTI));
    }
    for (const std::uint32_t version : {0u, 18u, 29u, 120000u, 140000u}) {
        fake_cupti().version = version;
        CHECK_THROWS_WITH(cupti::Recorder(FAKE_CUPTI), Contains("is version " + std::to_string(version) + " of CUPTI"));
    }
    CHECK_THROWS_WITH(cupti::Recorder("/nowhere/libcupti.so.13"), Contains("cannot be opened"));
    CHECK_THROWS_WITH(cupti::Recorder("libm.so.6"), Contains("has no cuptiGetVersion"));
}

TEST_CASE("libcupti is where the setting says, a file or a folder") {
    const std::filesystem::path file = FAKE_CUPTI, link = file.parent_path() / "libcupti.so.13";
    {
        const test::ScopedEnvironment named{{"TESSERA_CUPTI", file.string()}};
        CHECK(cupti::find_library() == file);
    }
    {
        const test::ScopedEnvironment named{{"TESSERA_CUPTI", file.parent_path().string()}};
        CHECK(cupti::find_library() == link);
    }
    const test::ScopedEnvironment named{{"TESSERA_CUPTI", "/nowhere"}};
    CHECK_THROWS_WITH(cupti::find_library(), Contains("TESSERA_CUPTI is \"/nowhere\", where there is no libcupti"));
    const cupti::LibrarySearch search = cupti::search_library();
    CHECK_FALSE(search.path);
    CHECK(search.looked == std::vector<std::string>{"/nowhere"});
}

TEST_CASE("the time of a launch is what the GPU is busy: overlaps count once, gaps do not") {
    using cupti::Activity;
    const Activity two[] = {{0, 300}, {250, 2250}, {10'000, 11'000}, {11'500, 11'600}};
    CHECK(cupti::busy_times(two, 2) == std::vector{2.25, 1.1});
    const Activity inside[] = {{0, 1000}, {100, 200}, {900, 1500}};
    CHECK(cupti::busy_times(inside, 1) == std::vector{1.5});
    CHECK(cupti::busy_times(two, 3).empty());
    CHECK(cupti::busy_times({}, 3).empty());
}

TEST_CASE("the clock takes medians of CUPTI's records, after a record that shows that it works") {
    const OnFakes on;
    fake::CuptiControl& control = fake_cupti();
    control.deliveries = {one_fill, two_hundred_launches()};
    const DeviceClock clock(on.stream);
    CHECK(clock.name() == "cupti");
    CHECK(clock.description() == "CUPTI 13.0's records of kernels and copies");
    CHECK(clock.remark().empty());
    int launches = 0;
    const DeviceClock::Time time = clock.time([&](int) { ++launches; });
    CHECK(launches == 203);
    CHECK(time.microseconds == 2.25);
    CHECK(time.samples == 200);
    CHECK(time.spread == Approx((4.25 - 2.25) / 2.25));  // a quarter of them take 4.25
    // What cannot be told apart is recorded again, three times in all.
    control.deliveries = {one_fill, one_fill, two_hundred_launches()};
    CHECK(clock.time([](int) {}).microseconds == 2.25);
    control.deliveries = {one_fill, one_fill, one_fill, two_hundred_launches()};
    CHECK_THROWS_WITH(clock.time([](int) {}), Contains("records 1 activities for 200 like launches"));
}

TEST_CASE("without a CUPTI that works the clock is graphs and says why in one line; by name it is an error") {
    const OnFakes on;
    const auto remark_of = [&] { return DeviceClock(on.stream).remark(); };
    fake::CuptiControl& control = fake_cupti();
    control.version = 140000;
    CHECK_THAT(remark_of(), Contains("CUPTI is not used: ") && Contains("is version 140000"));
    CHECK(DeviceClock(on.stream).name() == "graph");
    CHECK(DeviceClock(on.stream).description() == "differences of graph replays");
    control.version = 130001;
    control.fails = "cuptiActivityEnable", control.result = 35;
    CHECK_THAT(remark_of(), Contains("INSUFFICIENT_PRIVILEGES"));
    CHECK_THROWS_WITH(DeviceClock(on.stream, ClockKind::cupti),
                      Contains("CUPTI cannot be used: ") && Contains("--clock graph needs none"));
    control.fails = "";
    CHECK_THAT(remark_of(), Contains("records 0 activities for a fill"));
    const test::ScopedEnvironment nowhere{{"TESSERA_CUPTI", "/nowhere"}};
    CHECK_THAT(remark_of(), Contains("there is no libcupti"));
    CHECK(remark_of().find('\n') == std::string::npos);
    const int flushes = control.flushes;
    CHECK(DeviceClock(on.stream, ClockKind::graph).remark().empty());
    CHECK(control.flushes == flushes);
}

TEST_CASE("clocks have names") {
    CHECK(clock_kind("auto") == ClockKind::automatic);
    CHECK(clock_kind("cupti") == ClockKind::cupti);
    CHECK(clock_kind("graph") == ClockKind::graph);
    CHECK_THROWS_WITH(clock_kind("sun"), Contains("there is no clock \"sun\"; there are auto, cupti and graph"));
}
