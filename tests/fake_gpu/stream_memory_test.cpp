#include "runtime/stream_memory.hpp"

#include <catch2/catch.hpp>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dsl/base/error.hpp"
#include "kernels/quant.hpp"
#include "runtime/device_state.hpp"
#include "runtime/driver/driver.hpp"
#include "tests/fake_gpu/support.hpp"
#include "tests/support/scoped_environment.hpp"

using namespace tessera;
using Catch::Matchers::Contains;
using test::ScopedEnvironment;

namespace {

constexpr const char* limit = "TESSERA_MEMORY_CACHE";
constexpr const char *take_symbol = "cuMemAllocFromPoolAsync", *free_symbol = "cuMemFreeAsync";

Tensor bytes_on(const Stream& stream, std::int64_t bytes) { return Tensor::empty(stream, Element::u8, {bytes}); }

/// The streams of the calls of `symbol` since forget_calls.
std::vector<void*> streams_of(const std::string& symbol) {
    std::vector<void*> streams;
    for (std::size_t i = 0; i < fake::call_count(); ++i)
        if (fake::call(i).symbol == symbol) streams.push_back(fake::call(i).stream);
    return streams;
}

}  // namespace

TEST_CASE("memory given back on a stream is what the next like tensor there gets, and the driver is not asked") {
    const Stream stream = Device::cuda(0).stream();
    const runtime::CurrentContext current(stream.context());
    const void* const first = bytes_on(stream, 10'000).data();
    fake::forget_calls();
    const Tensor again = bytes_on(stream, 9'900);
    CHECK(again.data() == first);
    CHECK(fake::call_count() == 1);
    CHECK(fake::count_of("cuStreamIsCapturing") == 1);
    CHECK(bytes_on(stream, 10'000).data() != first);  // that one is in use
    CHECK(fake::count_of(take_symbol) == 1);
    CHECK(bytes_on(stream, 20'000).data() != first);
    CHECK(fake::count_of(take_symbol) == 2);
}

TEST_CASE("a cast with outputs of its own is one launch and one question once its memory was there before") {
    const Stream stream = Device::cuda(0).stream();
    const Tensor x = Tensor::zeros(stream, bf16, {5, 256});
    quant::per_token_cast(stream, x);
    const runtime::CurrentContext current(stream.context());
    fake::forget_calls();
    quant::per_token_cast(stream, x);
    CHECK(fake::call_count() == 2);
    CHECK(fake::count_of("cuStreamIsCapturing") == 1);
    CHECK(fake::count_of("cuLaunchKernel") == 1);
}

TEST_CASE("streams do not share what waits, for nothing orders them") {
    const Device device = Device::cuda(0);
    const Stream one = device.stream(), other = device.stream(), usual = Stream::default_of(device);
    const void* const kept = bytes_on(one, 5000).data();
    fake::forget_calls();
    CHECK(bytes_on(other, 5000).data() != kept);
    CHECK(bytes_on(usual, 5000).data() != kept);
    CHECK(bytes_on(Stream::default_of(device), 5000).data() != kept);  // the same default stream
    CHECK(fake::count_of(take_symbol) == 2);
    CHECK(bytes_on(Stream(one), 5000).data() == kept);
}

TEST_CASE("what waits is bounded in bytes and in pieces, and the oldest goes first, on its own stream") {
    const ScopedEnvironment set{{limit, "1M"}};
    const Stream stream = Device::cuda(0).stream();
    const long before = fake::live_allocations();
    std::vector<Tensor> pieces;
    for (int i = 0; i < 6; ++i) pieces.push_back(bytes_on(stream, 256 << 10));
    const void* const last = pieces.back().data();
    fake::forget_calls();
    for (Tensor& piece : pieces) piece = Tensor();
    CHECK(fake::live_allocations() == before + 4);
    CHECK(streams_of(free_symbol) == std::vector<void*>(2, stream.handle()));
    CHECK(bytes_on(stream, 256 << 10).data() == last);

    for (int i = 0; i < 100; ++i) pieces.push_back(bytes_on(stream, 1));
    pieces.clear();
    CHECK(fake::live_allocations() == before + 64);
    CHECK(fake::count_of(free_symbol) == 2 + 40);
}

TEST_CASE("a piece of more than a quarter of the bound, or any with a bound of 0, is the driver's at once") {
    const long before = fake::live_allocations();
    for (const auto& [bound, bytes] : {std::pair{"1M", 256 * 1024 + 1}, std::pair{"0", 1}}) {
        const ScopedEnvironment set{{limit, bound}};
        const Stream stream = Device::cuda(0).stream();
        bytes_on(stream, bytes);
        CHECK(fake::live_allocations() == before);
    }
    const ScopedEnvironment set{{limit, "much"}};
    CHECK_THROWS_WITH(Device::cuda(0).stream(), Contains("TESSERA_MEMORY_CACHE is \"much\""));
}

TEST_CASE("sizes up to the largest number are counted, and what is never kept is said so") {
    constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
    const runtime::StreamMemory bounded(1 << 20);
    runtime::StreamMemory endless(most);
    for (std::int64_t bytes : {most, most - 255, (most >> 1) + 1, (most >> 2) + 1}) {
        CHECK(bounded.size_for(bytes) == 0);
        CHECK(endless.size_for(bytes) == 0);
    }
    for (std::int64_t bytes : {most >> 3, most >> 4, std::int64_t{1} << 55, std::int64_t{1}}) {
        const std::int64_t size = endless.size_for(bytes);
        CHECK((size >= bytes && size <= std::max<std::int64_t>(bytes + bytes / 8 + 1, 256)));
        CHECK(bounded.size_for(bytes) == (bytes > 1 ? 0 : 256));
    }
    const std::int64_t large = endless.size_for(most >> 3);
    int kept = 0;
    while (kept < 20 && endless.keep({1, large})) ++kept;
    CHECK(kept == most / large);
}

TEST_CASE("when the driver has no memory it gets back what waits on every stream, and is asked once more") {
    const Device device = Device::cuda(0);
    const Stream one = device.stream(), other = device.stream();
    device.state().release_stream_memory();  // of the default stream, which other tests use
    const long before = fake::live_allocations();
    bytes_on(one, 1000), bytes_on(other, 1000);
    CHECK(fake::live_allocations() == before + 2);
    fake::forget_calls();
    fake::fail_next(take_symbol, 2);
    const Tensor large = bytes_on(one, 1 << 20);
    CHECK(streams_of(free_symbol) == std::vector<void*>{one.handle(), other.handle()});
    CHECK(fake::count_of(take_symbol) == 2);
    CHECK(fake::live_allocations() == before + 1);

    fake::forget_calls();
    fake::fail_next(take_symbol, 2, 2);
    CHECK_THROWS_WITH(bytes_on(one, 1 << 19),
                      Contains("cannot take 524288 bytes on cuda:0") && Contains("1 of 2 MiB are free"));
    CHECK(fake::count_of(take_symbol) == 2);
}

TEST_CASE("a capture gets none of what waits, and what is given up meanwhile waits for its end") {
    const Device device = Device::cuda(0);
    const Stream stream = device.stream();
    Tensor t = bytes_on(stream, 3000);
    const void* const kept = t.data();
    REQUIRE(fake::begin_capture(stream.handle()));
    t = Tensor();
    fake::forget_calls();
    {
        const Tensor of_graph = bytes_on(stream, 3000);
        CHECK(of_graph.data() != kept);
    }
    CHECK(fake::count_of(take_symbol) == 1);
    CHECK(fake::count_of(free_symbol) == 1);  // in the capture, as a node of the graph
    fake::fail_next(take_symbol, 2);
    CHECK(bytes_on(stream, 100).data() != kept);
    CHECK(fake::end_capture(stream.handle()));
    CHECK(bytes_on(stream, 3000).data() == kept);
}

TEST_CASE("what has no room any more during a capture goes to the driver after it") {
    const ScopedEnvironment set{{limit, "4K"}};
    const Stream stream = Device::cuda(0).stream();
    const long before = fake::live_allocations();
    std::vector<Tensor> pieces;
    for (int i = 0; i < 6; ++i) pieces.push_back(bytes_on(stream, 1024));
    REQUIRE(fake::begin_capture(stream.handle()));
    pieces.clear();
    CHECK(fake::end_capture(stream.handle()));
    CHECK(fake::live_allocations() == before + 6);
    bytes_on(stream, 1024);
    CHECK(fake::live_allocations() == before + 4);
}

TEST_CASE("the end of a stream gives its memory to the driver, in its order") {
    const Device device = Device::cuda(0);
    const long before = fake::live_allocations();
    std::optional<Stream> stream = device.stream();
    void* const handle = stream->handle();
    Tensor last = bytes_on(*stream, 100);
    bytes_on(*stream, 200);
    stream.reset();
    CHECK(fake::live_allocations() == before + 2);  // a tensor keeps its stream
    fake::forget_calls();
    last = Tensor();
    CHECK(fake::live_allocations() == before);
    CHECK(streams_of(free_symbol) == std::vector<void*>(2, handle));
    CHECK(std::string(fake::call(fake::call_count() - 2).symbol) == "cuStreamDestroy_v2");

    stream = device.stream();
    bytes_on(*stream, 100);
    fake::begin_capture(stream->handle());
    stream.reset();  // ends a capture that was never to be
    bytes_on(Stream::external(device, nullptr), 100'000'000);
    CHECK(fake::live_allocations() == before);
}

TEST_CASE("memory of a stream made elsewhere goes to the driver, for nobody tells when that stream ends") {
    const Device device = Device::cuda(0);
    const Stream made = device.stream(), stream = Stream::external(device, made.handle());
    const long before = fake::live_allocations();
    bytes_on(stream, 3000);
    CHECK(fake::live_allocations() == before);
}

TEST_CASE("what waited before a reset of the context went with it") {
    const Device device = Device::cuda(1);
    std::optional<Stream> stream = device.stream();
    bytes_on(*stream, 3000);
    bytes_on(Stream::default_of(device), 3000);
    fake::reset_primary(1);
    fake::forget_calls();
    const Tensor after = bytes_on(Stream::default_of(device), 3000);
    CHECK(fake::count_of(take_symbol) == 1);
    stream.reset();
    CHECK(fake::count_of(free_symbol) == 0);
}

TEST_CASE("32 threads on two streams: no two hold the same memory at once") {
    const ScopedEnvironment set{{limit, "16K"}};
    const Device device = Device::cuda(0);
    const long before = fake::live_allocations();
    {
        const Stream streams[] = {device.stream(), device.stream()};
        std::atomic<int> wrong{0};
        test::in_threads(32, [&](int thread) {
            for (int i = 0; i < 200; ++i) {
                const Tensor t = bytes_on(streams[(thread + i) % 2], 100 + 700 * (i % 3));
                auto* const mine = t.as<volatile int>();
                *mine = thread;
                std::this_thread::yield();
                wrong += *mine != thread;
            }
        });
        CHECK(wrong == 0);
    }
    CHECK(fake::live_allocations() == before);
}
