// Kernels from a bundle on a GPU: what the driver loads runs, what it refuses is compiled here.
#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <numeric>
#include <vector>

#include "dsl/emit/cuda.hpp"
#include "runtime/cache/transfer.hpp"
#include "runtime/compiler.hpp"
#include "tessera/runtime.hpp"
#include "tests/runtime/programs.hpp"

using namespace tessera;
namespace fs = std::filesystem;

namespace {

struct Scratch {
    std::string path = (fs::temp_directory_path() / "tessera-gpu-XXXXXX").string();
    Scratch() { REQUIRE(::mkdtemp(path.data())); }
    ~Scratch() { fs::remove_all(path); }
    Scratch(const Scratch&) = delete;
    Scratch& operator=(const Scratch&) = delete;
};

/// A bundle with the scale program as another NVRTC would have made it; `spoil` turns its code into something that is
/// an ELF file and no code.
runtime::CacheSettings with_bundle(const Scratch& scratch, const Device& device, bool spoil) {
    const auto program = test::scale_program("scale_bundled");
    runtime::CacheSettings no_cache;
    no_cache.enabled = false;
    runtime::Compiler compiler(no_cache);
    runtime::CounterSet ignored;
    const auto made = runtime::compile_lowered(compiler, *program, device.target(), ignored);
    runtime::CachedCubin compiled{made->kernel, made->cubin, made->ptx, made->log};
    if (spoil) std::fill(compiled.cubin.begin() + 64, compiled.cubin.end(), std::byte{0});
    const auto options = runtime::Compiler::options_for(device.target());
    runtime::CubinCache other({true, scratch.path + "/other", 1 << 20});
    other.publish(runtime::make_key(made->cuda_text, device.target().arch(), "build-id:another", options), compiled);
    runtime::export_bundle(other, scratch.path + "/bundle", false);
    return {true, scratch.path + "/cache", 1 << 20, scratch.path + "/bundle"};
}

bool scales(Engine& engine, const Device& device) {
    const CompiledKernel kernel = engine.compile_lowered(test::scale_program("scale_bundled"));
    std::vector<float> data(1000);
    std::iota(data.begin(), data.end(), 1.0f);
    const Stream s = device.stream();
    const Tensor x = Tensor::from_host(s, f32, {1000}, data.data()), y = Tensor::empty(s, f32, {1000});
    kernel.launch(s, {x, y}, {Scalar("factor", 0.5f)});
    const Tensor back = y.to_host(s);
    for (std::size_t i = 0; i < data.size(); ++i)
        if (back.as<float>()[i] != data[i] * 0.5f) return false;
    return true;
}

}  // namespace

TEST_CASE("a kernel of a bundle runs, and nothing is compiled") {
    const Scratch scratch;
    const Device device = Device::best();
    runtime::Compiler compiler(with_bundle(scratch, device, false));
    Engine engine(device, compiler);
    CHECK(scales(engine, device));
    CHECK(engine.counters().bundle_hits == 1);
    CHECK(engine.counters().compiles == 0);
    CHECK_FALSE(fs::exists(scratch.path + "/cache"));
}

TEST_CASE("a kernel of a bundle that the driver refuses is compiled, and kept in the folder") {
    const Scratch scratch;
    const Device device = Device::best();
    const runtime::CacheSettings settings = with_bundle(scratch, device, true);
    runtime::Compiler compiler(settings);
    Engine engine(device, compiler);
    CHECK(scales(engine, device));
    CHECK(scales(engine, device));
    CHECK(engine.counters().bundle_hits == 1);
    CHECK(engine.counters().compiles == 1);
    runtime::Compiler next_process(settings);
    Engine next(device, next_process);
    CHECK(scales(next, device));
    CHECK(next.counters().disk_hits == 1);
    CHECK(next.counters().compiles == 0);
}
