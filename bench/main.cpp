#include <cstdio>
#include <exception>
#include <fmt/format.h>
#include <fstream>
#include <string>

#include "bench/case.hpp"
#include "bench/compile_times.hpp"
#include "bench/device_clock.hpp"
#include "runtime/device.hpp"
#include "runtime/tensor.hpp"

// tessera_bench compile: what it takes to make each kernel; needs no GPU.
// tessera_bench [filter] [results.json]: device time of every case whose kernel or name contains the filter.

namespace tessera::bench {

namespace {

struct Row {
    const Case& the_case;
    DeviceClock::Time time, copy;
    double gigabytes() const { return static_cast<double>(the_case.bytes) / time.microseconds / 1e3; }
    double of_copy() const { return copy.microseconds / time.microseconds; }
};

/// A driver copy of half the bytes moves as much as the case does.
DeviceClock::Time copy_time(const DeviceClock& clock, const Stream& stream, std::int64_t bytes, int sets) {
    bytes = bytes / 8192 * 8192;  // odd sizes are copied on a slower path
    std::vector<Tensor> from, to;
    for (int i = 0; i < sets; ++i) {
        from.push_back(Tensor::zeros(stream, Element::u8, {bytes / 2}));
        to.push_back(Tensor::zeros(stream, Element::u8, {bytes / 2}));
    }
    return clock.time([&](int i) {
        const auto s = static_cast<std::size_t>(i % sets);
        copy(stream, to[s], from[s]);
    });
}

Row measure(const Stream& stream, const Case& c) {
    const DeviceClock clock(stream);
    const int sets = clock.sets_beyond_cache(c.bytes);
    const DeviceClock::Time time = clock.time(c.prepare(stream, sets));
    stream.synchronize();
    return {c, time, copy_time(clock, stream, c.bytes, sets)};
}

int run(const std::string& filter, const std::string& json) {
    const Device device = Device::cuda(0);
    const Stream stream = device.stream();
    std::ofstream file;
    if (!json.empty()) file.open(json);
    fmt::print("{} ({}); device time, cold L2\n{:<72} {:>8} {:>8} {:>7} {:>7}\n", device.name(), device.target().arch(),
               "case", "us", "GB/s", "copy%", "spread");
    for (const auto& cases : {quant_cases(), transpose_cases()})
        for (const Case& c : cases) {
            if (c.kernel.find(filter) == std::string::npos && c.name.find(filter) == std::string::npos) continue;
            const Row row = measure(stream, c);
            fmt::print("{:<72} {:>8.1f} {:>8.0f} {:>6.1f}% {:>6.1f}%\n", c.kernel + " " + c.name, row.time.microseconds,
                       row.gigabytes(), 100 * row.of_copy(), 100 * row.time.spread);
            std::fflush(stdout);
            if (file.is_open())
                file << fmt::format(
                    "{{\"kernel\":\"{}\",\"case\":\"{}\",\"bytes\":{},\"us\":{:.3f},\"copy_us\":{:.3f}}}\n", c.kernel,
                    c.name, c.bytes, row.time.microseconds, row.copy.microseconds);
        }
    return 0;
}

}  // namespace

}  // namespace tessera::bench

int main(int argc, char** argv) try {
    if (argc > 1 && std::string(argv[1]) == "compile")
        return tessera::bench::print_compile_times(tessera::Target::h200());
    return tessera::bench::run(argc > 1 ? argv[1] : "", argc > 2 ? argv[2] : "");
} catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
}
