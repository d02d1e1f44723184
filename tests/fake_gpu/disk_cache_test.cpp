// The disk cache between processes, over the kernels of every public function.
#include <catch2/catch.hpp>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <thread>

#include "tests/fake_gpu/support.hpp"
#include "tests/runtime/child.hpp"
#include "tests/support/kernels/public_calls.hpp"

using namespace tessera;
using Catch::Matchers::Contains;

namespace {

std::string text_of_file(const std::string& path) {
    std::ostringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
}

}  // namespace

TEST_CASE("child: the kernels of every public function", "[.every-kernel]") {
    const Stream stream = Device::cuda(0).stream();
    for (const test::PublicCall& call : test::public_calls()) call.prepared(stream, 1);
    const Counters counters = Engine::of(stream).counters();
    const bool warm = std::getenv("WARM") != nullptr;
    CHECK(counters.compiles == (warm ? 0 : counters.misses));
    CHECK((warm ? counters.disk_hits : counters.misses) >= 42);
    CHECK((warm ? counters.misses : counters.disk_hits) == 0);
    CHECK(test::has_mapped("libnvrtc") != warm);
}

TEST_CASE("a second process compiles no kernel of any public function, and does not open NVRTC (A22, A25)") {
    const test::ScratchFolder folder;
    const std::string cache = "TESSERA_CACHE=on TESSERA_CACHE_DIR=" + folder.path() + "/cache ";
    CHECK(test::passes_in_new_process("[.every-kernel]", cache));
    CHECK(test::passes_in_new_process("[.every-kernel]", cache + "WARM=1"));
}

TEST_CASE("child: a compilation of more than a second", "[.slow-compilation]") {
    fake::NvrtcControl& nvrtc = test::fake_nvrtc();
    nvrtc.hold = true;
    std::jthread let_go([&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(1050));
        nvrtc.hold = false;
    });
    Engine engine(Device::cuda(0));
    engine.compile(test::scale("slow"));
    engine.compile(test::scale("quick"));
}

TEST_CASE("a compilation of more than a second says so unasked, all others only if asked (A60, A106)") {
    const test::ScratchFolder folder;
    const std::string log = folder.path() + "/log";
    CHECK(test::passes_in_new_process("[.slow-compilation]", "TESSERA_VERBOSE=off 2>" + log));
    CHECK_THAT(text_of_file(log), Contains("tessera: slow sm_90a ") && Contains(" compiled 1") && !Contains("quick"));
    CHECK(test::passes_in_new_process("[.slow-compilation]", "TESSERA_VERBOSE=on 2>" + log));
    CHECK_THAT(text_of_file(log), Contains("tessera: quick sm_90a ") && Contains(" compiled "));
}
