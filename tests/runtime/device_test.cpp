#include <catch2/catch.hpp>

#include "dsl/base/error.hpp"
#include "runtime/driver/driver.hpp"
#include "runtime/stream.hpp"
#include "tests/runtime/child.hpp"

using namespace tessera;
using Catch::Matchers::Contains;

TEST_CASE("the host stands for a named target") {
    CHECK(Device() == Device::host());
    CHECK(Device::host().name() == "host (as H200)");
    CHECK(Device::host().target().sm == 90);
    CHECK(Device::host().is_host());
    CHECK(Device::host().index() == -1);
    const Device b200 = Device::host(Target::b200());
    CHECK(b200.name() == "host (as B200)");
    CHECK(b200.target().multiprocessors == 148);
    CHECK_FALSE(b200 == Device::host());
    CHECK(b200 == Device::host(Target::b200()));
    CHECK(b200.shares_memory(Device::host()));
    Target small = Target::h200();
    small.multiprocessors = 78;
    CHECK(Device::host(small).name() == "host (as sm_90a with 78 multiprocessors)");
}

TEST_CASE("devices are parsed from their spelling") {
    CHECK(Device::parse("host") == Device::host());
    CHECK(Device::parse("host:sm_90a") == Device::host());
    CHECK(Device::parse("host:sm_100a") == Device::host(Target::b200()));
    CHECK(Device::parse("best") == Device::best());
    CHECK_THROWS_WITH(Device::parse("gpu"), Contains("there is no device \"gpu\"; there are \"best\", \"host\""));
    CHECK_THROWS_WITH(Device::parse("cuda:x"), Contains("\"cuda:x\" has no number after the colon"));
    CHECK_THROWS_AS(Device::parse("cuda:-1"), UsageError);
    CHECK_THROWS_AS(Device::parse("cuda:1x"), UsageError);
}

TEST_CASE("without a usable GPU the best device is the host, and asking for one says what is missing") {
    const runtime::Driver& driver = runtime::driver();
    if (driver.usable) {
        CHECK_FALSE(Device::best().is_host());
        CHECK_THROWS_WITH(Device::cuda(99), Contains("there is no cuda:99: the driver sees"));
        return;
    }
    CHECK(Device::best() == Device::host());
    CHECK_FALSE(driver.problem.empty());
    CHECK_THROWS_WITH(Device::cuda(0), Contains(driver.problem) && Contains("Device::host() runs the same kernels"));
    CHECK_THROWS_AS(Device::parse("cuda"), UsageError);
}

TEST_CASE("host streams are there and done at once") {
    const Stream s = Device::host().stream();
    CHECK(s.device().is_host());
    CHECK(s.handle() == nullptr);
    CHECK_FALSE(s.is_capturing());
    s.synchronize();
    int handle = 0;
    CHECK_THROWS_WITH(Stream::external(Device::host(), &handle), Contains("Stream::external needs a CUDA device"));
}

TEST_CASE("a program starts without driver or compiler", "[.at-start]") {
    CHECK_FALSE(test::has_mapped("libcuda.so"));
    CHECK_FALSE(test::has_mapped("libnvrtc"));
    CHECK(test::has_mapped("libstdc++"));
}

TEST_CASE("nothing of CUDA is loaded before it is asked for") { CHECK(test::passes_in_new_process("[.at-start]")); }
