#include "bench/runner.hpp"

#include <algorithm>
#include <chrono>

#include "runtime/compiled.hpp"
#include "runtime/counters.hpp"
#include "runtime/cubin.hpp"
#include "runtime/device.hpp"
#include "runtime/engine.hpp"
#include "runtime/tensor.hpp"

namespace tessera::bench {

namespace {

using Clock = std::chrono::steady_clock;

double microseconds(Clock::duration d) { return std::chrono::duration<double, std::micro>(d).count(); }

/// Host time of a launch while the queue has room: median of short bursts.
double launch_time(const Stream& stream, const std::function<void(int)>& launch) {
    constexpr int burst = 20;
    std::vector<double> times;
    for (int round = 0; round < 15; ++round) {
        stream.synchronize();
        const auto start = Clock::now();
        for (int i = 0; i < burst; ++i) launch(i);
        times.push_back(microseconds(Clock::now() - start) / burst);
    }
    stream.synchronize();
    std::sort(times.begin(), times.end());
    return times[times.size() / 2];
}

void add_resources(Row& row, const Case& c, const Target& target) {
    if (!c.program) return;
    const Compiled compiled = compile_for(c.program(), target);
    for (const runtime::CubinFacts& facts : runtime::read_cubin(compiled.cubin)) {
        row.registers = facts.registers;
        row.stack_bytes = facts.stack_bytes;
    }
}

}  // namespace

double Runner::copy_us(std::int64_t bytes) {
    bytes = std::max<std::int64_t>(bytes / 2 / 65536, 1) * 65536;  // odd sizes are copied on a slower path
    const auto known = copies_.find(bytes);
    if (known != copies_.end()) return known->second;
    const int sets = clock_.sets_beyond_cache(2 * bytes);
    std::vector<Tensor> from, to;
    for (int i = 0; i < sets; ++i) {
        from.push_back(Tensor::zeros(stream_, Element::u8, {bytes}));
        to.push_back(Tensor::zeros(stream_, Element::u8, {bytes}));
    }
    // Much at once is left to the slower copy engine.
    constexpr std::int64_t most = std::int64_t{256} << 20;
    const auto part = [](const Tensor& t, std::int64_t at, std::int64_t n) {
        return TensorView::of(t.device(), static_cast<std::uint8_t*>(t.data()) + at, u8, {n});
    };
    const DeviceClock::Time time = clock_.time([&](int i) {
        const auto s = static_cast<std::size_t>(i % sets);
        for (std::int64_t at = 0; at < bytes; at += most) {
            const std::int64_t n = std::min(most, bytes - at);
            copy(stream_, part(to[s], at, n), part(from[s], at, n));
        }
    });
    return copies_[bytes] = time.microseconds;
}

Row Runner::run(const Case& c) {
    Row row;
    row.kernel = c.kernel;
    row.name = c.name;
    row.clock = clock_.name();
    row.bytes = c.bytes;
    row.sets = clock_.sets_beyond_cache(c.bytes);
    const double before = Engine::of(stream_).counters().compile_ms;
    {
        const auto launch = c.prepare(stream_, row.sets);
        row.time = clock_.time(launch);
        row.compile_ms = Engine::of(stream_).counters().compile_ms - before;
        row.launch_us = launch_time(stream_, launch);
    }
    row.copy_us = copy_us(c.bytes);
    add_resources(row, c, stream_.device().target());
    return row;
}

double host_elements_per_second(const Stream& host, const Case& c) {
    const auto launch = c.prepare(host, 1);
    std::vector<double> times;
    for (int i = 0; i < 3; ++i) {
        const auto start = Clock::now();
        launch(0);
        times.push_back(microseconds(Clock::now() - start));
    }
    std::sort(times.begin(), times.end());
    return static_cast<double>(c.elements) / times[1] * 1e6;
}

}  // namespace tessera::bench
