#include "tessera/runtime.hpp"

#include <catch2/catch.hpp>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <numeric>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

#include "dsl/base/error.hpp"
#include "runtime/device_state.hpp"
#include "runtime/driver/driver.hpp"
#include "tests/gpu/driver_calls.hpp"
#include "tests/runtime/child.hpp"
#include "tests/runtime/programs.hpp"

using namespace tessera;
using Catch::Matchers::Contains;

namespace {

std::vector<float> counting(std::int64_t n) {
    std::vector<float> data(static_cast<std::size_t>(n));
    std::iota(data.begin(), data.end(), -3.0f);
    return data;
}

bool is_scaled(const Stream& s, const Tensor& y, float factor) {
    const Tensor host = y.to_host(s);
    for (std::int64_t i = 0; i < y.count(); ++i)
        if (host.as<float>()[i] != static_cast<float>(i - 3) * factor) return false;
    return true;
}

Program scale(const char* name) { return Program(new ir::Program(*test::scale_program(name))); }

}  // namespace

TEST_CASE("the GPU is described") {
    const Device d = Device::best();
    CHECK(d == Device::cuda(0));
    CHECK(d == Device::parse("cuda:0"));
    CHECK_THAT(d.name(), Contains("NVIDIA"));
    CHECK(d.target().multiprocessors > 50);
    CHECK(d.target().shared_bytes == 227 * 1024);
    CHECK(d.target().l2_bytes > 30'000'000);
    CHECK_THROWS_WITH(Device::cuda(64), Contains("there is no cuda:64"));
}

TEST_CASE("data goes to the GPU and back, dense and strided") {
    const Device d = Device::best();
    const Stream s = d.stream();
    const std::vector<float> data = counting(4 * 5 * 6);
    const Tensor t = Tensor::from_host(s, f32, {4, 5, 6}, data.data());
    CHECK(reinterpret_cast<std::uintptr_t>(t.data()) % 256 == 0);
    const Tensor back = t.to_host(s);
    CHECK(std::memcmp(back.data(), data.data(), data.size() * 4) == 0);
    CHECK(Tensor::zeros(s, f32, {3}).to_host(s).as<float>()[2] == 0.0f);

    const Tensor wide = Tensor::zeros(s, f32, {4, 5, 8});
    copy(s, wide.view().slice(2, 1, 7), t);
    Tensor part = Tensor::empty(Device::host(), f32, {4, 2, 3});
    copy(s, part, wide.view().slice(1, 3, 5).slice(2, 2, 5));
    bool equal = true;
    for (int i = 0; i < 4; ++i)
        for (int j = 0; j < 2; ++j)
            for (int k = 0; k < 3; ++k)
                equal = equal && part.as<float>()[(i * 2 + j) * 3 + k] ==
                                     data[static_cast<std::size_t>(i * 30 + (j + 3) * 6 + k + 1)];
    CHECK(equal);
    CHECK_THROWS_WITH(copy(Stream::default_of(Device::host()), part, wide.view().slice(1, 0, 2).slice(2, 0, 3)),
                      Contains("the stream belongs to the host"));
    CHECK_THROWS_WITH(Tensor::empty(s, f32, {std::int64_t{1} << 45}),
                      Contains("cannot take 140737488355328 bytes on cuda:0") && Contains("MiB are free"));
}

TEST_CASE("a kernel runs on the GPU and refuses what does not fit") {
    const Device d = Device::best();
    const Stream s = d.stream();
    const CompiledKernel k = Engine::of(d).compile(scale("scale"));
    CHECK(k.cubin().size() > 0);
    CHECK_THAT(k.cuda_text(), Contains("__global__"));
    for (const std::int64_t n : {1, 127, 129, 100'003}) {
        const Tensor x = Tensor::from_host(s, f32, {n}, counting(n).data()), y = Tensor::empty(s, f32, {n});
        k.launch(s, {x, y}, {Scalar("factor", 0.5f)});
        CHECK(is_scaled(s, y, 0.5f));
    }
    const Tensor none = Tensor::empty(s, f32, {0}), host = Tensor::zeros(Device::host(), f32, {8}),
                 x = Tensor::zeros(s, f32, {8});
    k.launch(s, {none, none}, {Scalar("factor", 1)});
    CHECK_THROWS_WITH(
        k.launch(s, {x, host}, {Scalar("factor", 1)}),
        Contains("tensor y") && Contains("must lie on cuda:0, where the stream is, and lies on host; copy it"));
    CHECK_THROWS_WITH(k.launch(Stream::default_of(Device::host()), {host, host}, {Scalar("factor", 1)}),
                      Contains("it is compiled for cuda:0 and the stream is of host"));
    s.synchronize();
}

TEST_CASE("programs of one text share the code; each checks its own arguments") {
    Engine engine(Device::best());
    engine.compile(Program(new ir::Program(*test::scale_program("shared_text", 4))));
    const CompiledKernel aligned = engine.compile(Program(new ir::Program(*test::scale_program("shared_text", 256))));
    CHECK(engine.counters().memory_hits + engine.counters().misses + engine.counters().disk_hits == 2);
    const Stream s = Device::best().stream();
    const Tensor x = Tensor::zeros(s, f32, {128});
    CHECK_THROWS_WITH(aligned.launch(s, {x.view().slice(0, 1, 9), x.view().slice(0, 64, 72)}, {Scalar("factor", 1)}),
                      Contains("must begin at a multiple of 256 bytes"));
}

TEST_CASE("default, own and foreign streams work") {
    const Device d = Device::best();
    const CompiledKernel k = Engine::of(d).compile(scale("scale"));
    void* foreign = nullptr;
    const runtime::CurrentContext current(d.state().context());
    REQUIRE(runtime::driver_api().stream_create(&foreign, 1) == 0);
    for (const Stream& s : {Stream::default_of(d), d.stream(), Stream::external(d, foreign)}) {
        const Tensor x = Tensor::from_host(s, f32, {1000}, counting(1000).data()), y = Tensor::empty(s, f32, {1000});
        k.launch(s, {x, y}, {Scalar("factor", 3.0f)});
        CHECK(is_scaled(s, y, 3.0f));
    }
    CHECK(runtime::driver_api().stream_destroy(foreign) == 0);
}

TEST_CASE("memory that another library took is used where it lies, as a view and through DLPack") {
    const Device d = Device::best();
    const Stream s = d.stream();
    const CompiledKernel k = Engine::of(d).compile(scale("scale"));
    const runtime::CurrentContext current(d.state().context());
    std::uint64_t taken = 0;
    REQUIRE(test::driver_call<int(std::uint64_t*, std::size_t)>("cuMemAlloc_v2")(&taken, 4000) == 0);
    {
        const TensorView theirs = TensorView::of(d, reinterpret_cast<void*>(taken), f32, {1000});
        copy(s, theirs, TensorView::of(Device::host(), counting(1000).data(), f32, {1000}));
        const Tensor y = Tensor::empty(s, f32, {1000});
        k.launch(s, {theirs, y}, {Scalar("factor", 2.0f)});
        CHECK(is_scaled(s, y, 2.0f));
        const Tensor x = from_dlpack(to_dlpack(Tensor::adopt(theirs, nullptr)));
        const Tensor back = from_dlpack(to_dlpack(y));
        CHECK(back.data() == y.data());
        k.launch(s, {x, back}, {Scalar("factor", 3.0f)});
        CHECK(is_scaled(s, y, 3.0f));
    }
    CHECK(test::driver_call<int(std::uint64_t)>("cuMemFree_v2")(taken) == 0);
}

TEST_CASE("a kernel runs in a second context of the same GPU") {
    const Device d = Device::best();
    const CompiledKernel k = Engine::of(d).compile(scale("scale"));
    for (int round = 0; round < 2; ++round) {  // the second context may get the address of the first
        void *context = nullptr, *handle = nullptr;
        REQUIRE(test::driver_call<int(void**, unsigned, int)>("cuCtxCreate_v2")(&context, 0, 0) == 0);
        REQUIRE(runtime::driver_api().stream_create(&handle, 0) == 0);
        {
            const Stream s = Stream::external(d, handle);
            CHECK(s.context() == context);
            const Tensor x = Tensor::from_host(s, f32, {500}, counting(500).data()), y = Tensor::empty(s, f32, {500});
            k.launch(s, {x, y}, {Scalar("factor", 2.0f)});
            CHECK(is_scaled(s, y, 2.0f));
        }
        CHECK(test::driver_call<int(void*)>("cuCtxDestroy_v2")(context) == 0);
    }
}

// In a process of its own: a reset takes everything of this GPU along.
TEST_CASE("child: the primary context is reset", "[.primary-reset]") {
    const Device d = Device::best();
    const CompiledKernel k = Engine::of(d).compile(scale("scale"));
    const auto run = [&](const Stream& s) {
        const Tensor x = Tensor::from_host(s, f32, {500}, counting(500).data()), y = Tensor::empty(s, f32, {500});
        k.launch(s, {x, y}, {Scalar("factor", 2.0f)});
        return is_scaled(s, y, 2.0f);
    };
    const Stream before = d.stream();
    CHECK(run(before));
    REQUIRE(test::driver_call<int(int)>("cuDevicePrimaryCtxReset_v2")(0) == 0);
    CHECK(run(d.stream()));
    CHECK(run(Stream::default_of(d)));
}

TEST_CASE("a primary context that was reset is made anew, and kernels from before run in it") {
    CHECK(test::passes_in_new_process("[.primary-reset]"));
}

TEST_CASE("two GPUs: each engine runs on its own") {
    if (runtime::driver().device_count < 2) {
        WARN("one GPU: not tested");
        return;
    }
    for (int i : {0, 1, 0}) {
        const Device d = Device::cuda(i);
        const Stream s = d.stream();
        const Tensor x = Tensor::from_host(s, f32, {500}, counting(500).data()), y = Tensor::empty(s, f32, {500});
        const auto& k = Engine::of(d).kernel(KernelId("scale_two", {}), [] { return scale("scale_two"); });
        k.launch(s, {x, y}, {Scalar("factor", 2.0f)});
        CHECK(is_scaled(s, y, 2.0f));
    }
}

TEST_CASE("a forked child is told so; it may still compile") {
    Engine::of(Device::best()).compile(scale("scale"));
    const pid_t child = fork();
    if (child == 0) {
        int status = 1;
        try {
            Device::best().stream();
        } catch (const UsageError& error) {
            status = std::strstr(error.what(), "forked") ? 0 : 2;
        }
        try {
            if (compile_for(scale("after_fork"), Target::b200()).cubin.empty()) status = 3;
        } catch (const Error& error) {
            std::fprintf(stderr, "in the child: %s\n", error.what());
            status = 4;
        }
        _exit(status);
    }
    int status = 0;
    waitpid(child, &status, 0);
    CHECK(WIFEXITED(status));
    CHECK(WEXITSTATUS(status) == 0);
    Device::best().stream().synchronize();
}
