#include <catch2/catch.hpp>
#include <tessera/dsl.hpp>

#include "dsl/base/error.hpp"
#include "tests/fake_gpu/count_allocations.hpp"
#include "tests/fake_gpu/support.hpp"

// What the driver is told about tensors that are copied by tensor maps, and how often.

using namespace tessera;
using Catch::Matchers::Contains;

namespace {

/// Boxes of [16, 64] BF16 of x [n, m] at a pitch go to y; with a report, too, if asked.
Program boxes(const char* name, bool reports = false) {
    return record(name, [=](Kernel& k) {
        const Dim n = k.dim("n"), m = k.dim("m"), pitch = k.dim("pitch", multiple_of(8));
        const auto x = k.input<bf16>("x", {n, m}, {.strides = {pitch, 1}});
        const auto y = k.output<bf16>("y", {n, 64});
        k.threads(64);
        const Index block = k.grid(1).x;
        const auto tile = k.shared<bf16>("tile", {2, 16, 64}, {.bits = 3, .base = 3, .shift = 3});
        k.pipelined(
            ceil_div(n, 16), {.stages = 2, .engine = Copies::tensor},
            [&](Index i, Index slot) { copy_async(tile[slot].whole(), x.block({16, 64}, {i, block})); },
            [&](Index i, Index slot) { store(y.block({16, 64}, {i, 0}), load(tile[slot].whole())); });
        if (reports) {
            const auto first = load(x.window({1, 1}, {0, 0}), {.per_thread = {1, 1}});
            k.report(cast<f32>(first) < 0.0f, "x is not negative", x.window({1, 1}, {0, 0}));
        }
    });
}

struct Given {
    Stream stream;
    Tensor memory, y;
    explicit Given(const Stream& s)
        : stream(s), memory(Tensor::empty(s, bf16, {64, 128})), y(Tensor::empty(s, bf16, {40, 64})) {}
    TensorView x(std::int64_t first = 0, std::int64_t n = 40, std::int64_t m = 100, std::int64_t pitch = 104) const {
        return TensorView::of(stream.device(), static_cast<std::uint16_t*>(memory.view().data) + first, bf16, {n, m},
                              {pitch, 1});
    }
};

}  // namespace

TEST_CASE("a tensor map says where a tensor lies, once for each") {
    const Given given(Device::cuda(0).stream());
    const Stream& stream = given.stream;
    const CompiledKernel kernel = Engine::of(stream).compile(boxes("mapped"));
    fake::forget_calls();
    fake::watch_argument(5);  // after x, y, n, m and pitch
    kernel.launch(stream, {given.x(), given.y});
    REQUIRE(fake::count_of("cuTensorMapEncodeTiled") == 1);
    const fake::TensorMap map = fake::last_map();
    CHECK(map.element == 1);  // CU_TENSOR_MAP_DATA_TYPE_UINT16
    CHECK(map.rank == 2);
    CHECK(map.address == reinterpret_cast<std::uintptr_t>(given.memory.view().data));
    CHECK((map.extents[0] == 100 && map.extents[1] == 40));
    CHECK(map.strides[0] == 208);  // bytes
    CHECK((map.box[0] == 64 && map.box[1] == 16));
    CHECK((map.steps[0] == 1 && map.steps[1] == 1));
    CHECK(map.interleave == 0);
    CHECK(map.swizzle == 3);  // CU_TENSOR_MAP_SWIZZLE_128B
    CHECK(map.fill == 0);     // zeros
    CHECK(fake::watched_words()[0] == map.address);
    const std::uint64_t first = fake::watched_words()[1];

    const long before = test::allocations_of_thread();
    for (int i = 0; i < 10; ++i) kernel.launch(stream, {given.x(), given.y});
    CHECK(test::allocations_of_thread() == before);
    CHECK(fake::count_of("cuTensorMapEncodeTiled") == 1);
    CHECK(fake::watched_words()[1] == first);

    // Another address, extent or stride is another map; the old one is still known.
    kernel.launch(stream, {given.x(8), given.y});
    CHECK(fake::watched_words()[0] == map.address + 16);
    kernel.launch(stream, {given.x(0, 40, 99), given.y});
    kernel.launch(stream, {given.x(0, 40, 100, 112), given.y});
    CHECK(fake::last_map().strides[0] == 224);
    CHECK(fake::count_of("cuTensorMapEncodeTiled") == 4);
    kernel.launch(stream, {given.x(), given.y});
    CHECK(fake::watched_words()[1] == first);
    CHECK(fake::count_of("cuTensorMapEncodeTiled") == 4);

    // Of many only the latest are kept.
    for (std::int64_t i = 1; i <= 8; ++i) kernel.launch(stream, {given.x(8 * i), given.y});
    fake::forget_calls();
    kernel.launch(stream, {given.x(), given.y});
    CHECK(fake::count_of("cuTensorMapEncodeTiled") == 1);
    fake::watch_argument(-1);
}

TEST_CASE("the record of what a kernel reports comes after its tensor maps") {
    const Given given(Device::cuda(0).stream());
    const CompiledKernel kernel = Engine::of(given.stream).compile(boxes("mapped_and_reporting", true));
    const std::string text = kernel.cuda_text();
    const auto at = text.find("__global__"), map = text.find("TensorMap x_map", at),
               record = text.find("unsigned long long* record", at);
    REQUIRE((map != std::string::npos && record != std::string::npos));
    CHECK(map < record);
    fake::watch_argument(5);
    kernel.launch(given.stream, {given.x(), given.y});
    CHECK(fake::watched_words()[0] == reinterpret_cast<std::uintptr_t>(given.memory.view().data));
    fake::watch_argument(-1);
}

TEST_CASE("a kernel with tensor maps is captured and prepared like any other") {
    const Given given(Device::cuda(0).stream());
    Engine& engine = Engine::of(given.stream);
    const auto launch = [&](std::int64_t first) {
        engine.kernel(given.stream, KernelId("captured_map", {}), [] { return boxes("captured_map"); })
            .launch(given.stream, {given.x(first), given.y});
    };
    fake::forget_calls();
    prepare([&] { launch(0); });
    CHECK(fake::count_of("cuLaunchKernel") == 0);
    REQUIRE(fake::begin_capture(given.stream.handle()));
    launch(0);
    launch(16);
    CHECK(fake::end_capture(given.stream.handle()));
    CHECK(fake::count_of("cuLaunchKernel") == 2);
    CHECK(fake::count_of("cuTensorMapEncodeTiled") == 2);
}

TEST_CASE("threads that launch one kernel on tensors of their own get maps of their own") {
    const Given given(Device::cuda(0).stream());
    const CompiledKernel kernel = Engine::of(given.stream).compile(boxes("mapped_by_threads"));
    fake::forget_calls();
    test::in_threads(8, [&](int thread) {
        for (int i = 0; i < 200; ++i) kernel.launch(given.stream, {given.x(8 * thread), given.y});
    });
    CHECK(fake::count_of("cuTensorMapEncodeTiled") == 8);
    CHECK(fake::count_of("cuLaunchKernel") == 1600);
}

TEST_CASE("what a tensor map cannot say is refused, on the host too; a driver that refuses is quoted") {
    const Given given(Device::cuda(0).stream());
    const CompiledKernel kernel = Engine::of(given.stream).compile(boxes("refusing"));
    const auto wide = given.x(0, 40, 100, std::int64_t{1} << 40);
    CHECK_THROWS_WITH(kernel.launch(given.stream, {wide, given.y}),
                      Contains("kernel refusing: tensor x is copied from by a tensor map, and its stride along axis 0 "
                               "is 2199023255552 bytes; the copy engine takes 0 to 1099511627775"));
    CHECK_THROWS_WITH(kernel.launch(given.stream, {given.x(0, 40, 100, 101), given.y}),
                      Contains("pitch") && Contains("multiple of 8"));
    CHECK_THROWS_WITH(kernel.launch(given.stream, {given.x(3), given.y}), Contains("16"));
    const Stream host = Stream::default_of(Device::host());
    const CompiledKernel there = Engine::of(host).compile(boxes("refusing"));
    const Tensor y = Tensor::empty(host, bf16, {0, 64});
    std::uint16_t value = 0;
    CHECK_THROWS_WITH(there.launch(host, {TensorView::of(host.device(), &value, bf16, {0, 100}, {104, 1}), y}),
                      Contains("has no elements; launch nothing for an empty tensor, or copy by vectors"));
    fake::fail_next("cuTensorMapEncodeTiled", 1);
    CHECK_THROWS_WITH(
        kernel.launch(given.stream, {given.x(), given.y}),
        Contains("cannot describe tensor x of kernel refusing to the copy engine: cuTensorMapEncodeTiled"));
}
