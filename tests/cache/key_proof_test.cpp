// What NVRTC tells apart and what keys tell apart, side by side.
#include <catch2/catch.hpp>
#include <map>
#include <set>

#include "runtime/cache/cache_key.hpp"
#include "runtime/nvrtc/find.hpp"
#include "runtime/nvrtc/nvrtc.hpp"
#include "tests/cache/support.hpp"

using namespace tessera;
using namespace tessera::runtime;

namespace {

struct Variant {
    std::string what;
    std::string text;
    std::vector<std::string> options;
};

const std::string kernel =
    "__device__ float helper(float v) { return v * 3.0f + 1.25f; }\n"
    "extern \"C\" __global__ void k(float* x, int n) {\n"
    "    const int i = blockIdx.x * 128 + threadIdx.x;\n"
    "    if (i < n) x[i] = helper(x[i]) / x[i + 1];\n"
    "}\n";

std::string with(const std::string& from, const std::string& to) {
    std::string text = kernel;
    const std::size_t at = text.find(from);
    REQUIRE(at != std::string::npos);
    return text.replace(at, from.size(), to);
}

/// Every change that the machine code sees, and beside it changes that it does not see.
std::vector<Variant> variants() {
    return {
        {"the kernel", kernel, {}},
        {"a comment, blank lines", "// head\n\n" + with("{\n", "{  /* body */\n\n"), {}},
        {"another place", "#line 77 \"/home/of/somebody/writer.cpp\"\n" + kernel, {}},
        {"indentation", with("    if", "\tif"), {}},
        {"the default said", kernel, {"--fmad=true", "--prec-div=true"}},
        {"the default said otherwise", kernel, {"-fmad=true "}},
        {"a constant of a helper", with("1.25f", "1.5f"), {}},
        {"a constant", with("128", "256"), {}},
        {"an operator", with(" / ", " * "), {}},
        {"the kernel's name", with("void k(", "void other("), {}},
        {"a parameter's type", with("int n", "long long n"), {}},
        {"a parameter's qualifier", with("float* x", "const float* y, float* x"), {}},
        {"contraction off", kernel, {"--fmad=false"}},
        {"contraction off, said twice", kernel, {"--fmad=false", "-fmad=false"}},
        {"denormals flushed", kernel, {"--ftz=true"}},
        {"a fast division", kernel, {"--prec-div=false"}},
        {"fast math", kernel, {"--use_fast_math"}},
        {"line information", "#line 7 \"a.cpp\"\n" + kernel, {"-lineinfo"}},
        {"line information, other lines", "#line 8 \"a.cpp\"\n" + kernel, {"--generate-line-info"}},
        {"a macro", "#ifdef FAST\n" + with("1.25f", "9.0f") + "#else\n" + kernel + "#endif\n", {"-DFAST"}},
    };
}

}  // namespace

TEST_CASE("key: two keys are equal exactly where NVRTC makes the same machine code (C33)") {
    if (!nvrtc_search().path) {
        WARN("not run: there is no libnvrtc on this machine");
        return;
    }
    const Nvrtc& nvrtc = Nvrtc::loaded();
    std::map<std::string, std::string> cubin_of_key, key_of_cubin;  // and who had it first
    for (const std::string target : {"sm_90a", "sm_100a"}) {
        for (Variant variant : variants()) {
            CAPTURE(target, variant.what);
            variant.options.insert(variant.options.begin(), {"--gpu-architecture=" + target, "--std=c++17"});
            const auto made = nvrtc.compile(variant.text, "k", variant.options);
            INFO(made.log);
            REQUIRE(made.ok);
            const std::string cubin(reinterpret_cast<const char*>(made.cubin.data()), made.cubin.size());
            const std::string key = make_key(variant.text, target, nvrtc_search().identity, variant.options).hex();
            const bool same_code = cubin_of_key.emplace(key, cubin).first->second == cubin;
            CHECK(same_code);
            CHECK(key_of_cubin.emplace(cubin, key).first->second == key);
        }
    }
    CHECK(cubin_of_key.size() == 2 * 14);
}
