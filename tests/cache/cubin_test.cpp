#include "runtime/cubin.hpp"

#include <catch2/catch.hpp>
#include <cstdlib>
#include <dlfcn.h>
#include <random>

#include "dsl/base/error.hpp"
#include "tests/cache/support.hpp"

using namespace tessera;
using namespace tessera::runtime;
using namespace tessera::test;

namespace {

const std::filesystem::path data = TESSERA_CACHE_TEST_DATA;

std::span<const std::byte> bytes_of(const std::string& text) { return std::as_bytes(std::span(text)); }

/// NVRTC of this machine, opened by hand.
class Nvrtc {
public:
    Nvrtc() {
        const char* home = std::getenv("CUDA_HOME");
        for (const std::string& folder : {std::string(), std::string(home ? home : "/usr/local/cuda") + "/lib64/",
                                          std::string("/usr/local/cuda/lib64/")}) {
            for (const char* name : {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"}) {
                if (!library_) library_ = ::dlopen((folder + name).c_str(), RTLD_NOW | RTLD_LOCAL);
            }
        }
    }
    bool found() const { return library_ != nullptr; }

    struct Result {
        std::string cubin, log;
    };
    Result compile(const std::string& text, std::vector<const char*> options) const {
        void* program = nullptr;
        REQUIRE(call<int(void**, const char*, const char*, int, const char* const*, const char* const*)>(
                    "nvrtcCreateProgram")(&program, text.c_str(), "k.cu", 0, nullptr, nullptr) == 0);
        REQUIRE(call<int(void*, int, const char* const*)>("nvrtcCompileProgram")(
                    program, static_cast<int>(options.size()), options.data()) == 0);
        Result result;
        result.cubin = text_of(program, "nvrtcGetCUBINSize", "nvrtcGetCUBIN");
        result.log = text_of(program, "nvrtcGetProgramLogSize", "nvrtcGetProgramLog");
        call<int(void**)>("nvrtcDestroyProgram")(&program);
        return result;
    }

private:
    template <class F>
    F* call(const char* name) const {
        auto* function = reinterpret_cast<F*>(::dlsym(library_, name));
        REQUIRE(function);
        return function;
    }
    std::string text_of(void* program, const char* size_call, const char* get_call) const {
        std::size_t size = 0;
        REQUIRE(call<int(void*, std::size_t*)>(size_call)(program, &size) == 0);
        std::string text(size, '\0');
        REQUIRE(call<int(void*, char*)>(get_call)(program, text.data()) == 0);
        return text;
    }
    void* library_ = nullptr;
};

void check_same(const CubinFacts& facts, const CubinFacts& expected) {
    CHECK(facts.kernel == expected.kernel);
    CHECK(facts.registers == expected.registers);
    CHECK(facts.stack_bytes == expected.stack_bytes);
    CHECK(facts.static_shared_bytes == expected.static_shared_bytes);
    CHECK(facts.instructions == expected.instructions);
}

}  // namespace

TEST_CASE("cubin: facts of a known file, as ptxas -v and readelf tell them") {
    const auto facts = read_cubin(bytes_of(read_file(data / "known.cubin")));
    REQUIRE(facts.size() == 2);
    check_same(facts[0], {"known", 10, 0, 384, 0x300 / 16});
    check_same(facts[1], {"stacked", 20, 40, 0, 0x580 / 16});
}

TEST_CASE("cubin: what is no cubin is a UsageError that says so") {
    using Catch::Matchers::Contains;
    CHECK_THROWS_AS(read_cubin({}), UsageError);
    CHECK_THROWS_WITH(read_cubin(bytes_of("// a PTX file, say, which is text and of any length you like: 0123456789")),
                      Contains("no readable cubin") && Contains("cache verify"));
    CHECK_THROWS_WITH(read_cubin(bytes_of(read_file("/proc/self/exe"))), Contains("another machine"));
}

TEST_CASE("cubin: truncated and changed files do no harm") {
    const std::string good = read_file(data / "known.cubin");
    REQUIRE(good.size() == 7008);
    for (std::size_t bytes = 0; bytes < good.size(); ++bytes) {
        // The section headers and the program headers stand at the end; without the latter nothing is lost.
        const std::string text = good.substr(0, bytes);
        const std::vector<char> exact(text.begin(), text.end());  // so that a sanitizer sees a read past the end
        if (bytes < 0x1548 + 20 * 64) {
            REQUIRE_THROWS_AS(read_cubin(std::as_bytes(std::span(exact))), UsageError);
        } else {
            REQUIRE(read_cubin(std::as_bytes(std::span(exact))).size() == 2);
        }
    }
    std::mt19937 random(11);
    int refused = 0;
    for (int round = 0; round < 20'000; ++round) {
        std::vector<char> bytes(good.begin(), good.end());
        // Half of the changes go where they hurt: headers, names, symbols and attributes.
        for (int i = 0; i < 4; ++i) {
            const std::size_t hot[] = {0, 0x40, 0x1e6, 0x3b0, 0x6a8, 0x1548};
            const std::size_t at = i % 2 ? random() % bytes.size() : hot[random() % 6] + random() % 64;
            bytes[at] = static_cast<char>(random());
        }
        try {
            for (const CubinFacts& facts : read_cubin(std::as_bytes(std::span(bytes)))) {
                REQUIRE(facts.registers >= 0);
                REQUIRE(facts.instructions <= static_cast<int>(bytes.size() / 16));
            }
        } catch (const UsageError&) {
            ++refused;
        }
    }
    CHECK(refused > 1000);
}

TEST_CASE("cubin: spills in a log of ptxas -v") {
    CHECK_FALSE(spills_in_log(""));
    CHECK_FALSE(spills_in_log("ptxas info : Used 20 registers\n"));
    const auto none = spills_in_log("    40 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n");
    REQUIRE(none);
    CHECK(none->store_bytes == 0);
    CHECK(none->load_bytes == 0);
    const auto two = spills_in_log(
        "ptxas info : Function properties for a\n    0 bytes stack frame, 8 bytes spill stores, 12 bytes spill loads\n"
        "ptxas info : Function properties for b\n    0 bytes stack frame, 100 bytes spill stores, 4 bytes spill loads");
    REQUIRE(two);
    CHECK(two->store_bytes == 108);
    CHECK(two->load_bytes == 16);
    CHECK_FALSE(spills_in_log(" bytes spill stores"));
}

TEST_CASE("cubin: what NVRTC makes here, and that keys tell apart exactly what it tells apart") {
    const Nvrtc nvrtc;
    if (!nvrtc.found()) {
        WARN("not run: there is no libnvrtc on this machine");
        return;
    }
    const std::string text =
        "extern \"C\" __global__ void k(float* x, int n) {\n"
        "__shared__ float s[33];\ns[threadIdx.x] = x[threadIdx.x];\n__syncthreads();\n"
        "x[threadIdx.x] = s[(threadIdx.x + n) % 33] + 1.0f;\n}\n";
    const std::string commented = "// made for a test\n#line 77 \"writer.cpp\"\n" + text;
    for (const std::string target : {"sm_90a", "sm_100a"}) {
        const std::string arch = "--gpu-architecture=" + target;
        const auto compile = [&](const std::string& source, std::vector<const char*> more) {
            more.insert(more.begin(), {arch.c_str(), "--ptxas-options=-v"});
            return nvrtc.compile(source, more);
        };
        const auto result = compile(text, {});
        const auto facts = read_cubin(bytes_of(result.cubin));
        REQUIRE(facts.size() == 1);
        CHECK(facts[0].kernel == "k");
        CHECK(result.log.find("Used " + std::to_string(facts[0].registers) + " registers") != std::string::npos);
        CHECK(facts[0].static_shared_bytes == 33 * 4);
        CHECK(facts[0].stack_bytes == 0);
        CHECK(facts[0].instructions > 10);
        REQUIRE(spills_in_log(result.log));
        CHECK(spills_in_log(result.log)->store_bytes == 0);

        const auto key = [&](const std::string& source, std::vector<std::string> options) {
            return make_key(source, target, "build-id:1", options).hex();
        };
        CHECK(compile(commented, {}).cubin == result.cubin);
        CHECK(key(commented, {}) == key(text, {}));
        CHECK(compile(text, {"--fmad=true"}).cubin == result.cubin);
        CHECK(key(text, {"--fmad=true"}) == key(text, {}));
        CHECK(compile(text, {"-lineinfo"}).cubin != compile(commented, {"-lineinfo"}).cubin);
        CHECK(key(text, {"-lineinfo"}) != key(commented, {"-lineinfo"}));
    }
}
