#include "bench/start_up.hpp"

#include <algorithm>
#include <chrono>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <functional>
#include <sstream>

#include "dsl/base/error.hpp"
#include "kernels/quant_channel.hpp"
#include "kernels/swiglu.hpp"
#include "kernels/transpose.hpp"
#include "runtime/compiler.hpp"
#include "runtime/engine.hpp"

namespace tessera::bench {

namespace {

constexpr std::int64_t tokens = 256, hidden = 7168;

struct Start {
    const char* name;
    Program (*program)();
    /// Makes the tensors; what it returns is the launch.
    std::function<void()> (*prepared)(const Stream&);
};

std::function<void()> token_cast(const Stream& s) {
    const Tensor x = Tensor::zeros(s, bf16, {tokens, hidden}), data = Tensor::empty(s, e4m3, {tokens, hidden}),
                 sf = Tensor::empty(s, f32, {tokens, hidden / 128});
    return [=] { quant::per_token_cast(s, x.view(), data, sf); };
}

std::function<void()> channel_cast(const Stream& s) {
    const Tensor x = Tensor::zeros(s, bf16, {tokens, hidden}), data = Tensor::empty(s, e4m3, {hidden, tokens}),
                 sf = Tensor::empty(s, f32, {tokens / 128, hidden});
    return [=] { quant::per_channel_cast_and_transpose(s, x, data, sf); };
}

std::function<void()> swiglu_forward(const Stream& s) {
    const Tensor x = Tensor::zeros(s, bf16, {tokens, 2 * hidden}), data = Tensor::empty(s, e4m3, {tokens, hidden}),
                 sf = Tensor::empty(s, f32, {tokens, hidden / 128});
    return [=] { swiglu::forward_and_per_token_cast(s, x, data, sf); };
}

std::function<void()> transposed(const Stream& s) {
    const Tensor x = Tensor::zeros(s, bf16, {1, tokens, hidden}), out = Tensor::empty(s, bf16, {1, hidden, tokens});
    return [=] { transpose::batched_transpose(s, x, out); };
}

const Start starts[] = {
    {"per_token_cast", [] { return quant::per_token_cast_program(bf16, hidden); }, token_cast},
    {"per_channel_cast_and_transpose", [] { return quant::per_channel_cast_and_transpose_program(bf16, hidden); },
     channel_cast},
    {"swiglu_forward_and_per_token_cast", [] { return swiglu::forward_and_per_token_cast_program(bf16, hidden); },
     swiglu_forward},
    {"batched_transpose", [] { return transpose::batched_transpose_program(2); }, transposed},
};

const Start& start_of(const std::string& kernel) {
    for (const Start& start : starts)
        if (kernel == start.name) return start;
    throw UsageError(
        fmt::format("there is no start-up of {}; use one of {}", kernel, fmt::join(start_up_kernels(), ", ")));
}

using Clock = std::chrono::steady_clock;
double since(Clock::time_point begin) {
    return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}

StartUp split_of(const Counters& c, double total) {
    return {c.record_ms, c.lower_ms, c.emit_ms, c.digest_ms, c.disk_ms, c.load_ms, 0, c.compile_ms, total};
}

StartUp on_host(const Target& target, const Start& start) {
    runtime::CounterSet counters;
    const auto begin = Clock::now();
    const Program program = start.program();
    const double record = since(begin);
    const auto lowered = runtime::lowered_for(program.ir(), target, counters);
    (void)runtime::compile_lowered(runtime::Compiler::shared(), *lowered, target, counters);
    StartUp times = split_of(counters.values(), since(begin));
    times.record = record;
    return times;
}

double StartUp::* const columns[] = {&StartUp::record, &StartUp::lower, &StartUp::emit,   &StartUp::digest,
                                     &StartUp::disk,   &StartUp::load,  &StartUp::launch, &StartUp::total};

double median(std::vector<double> values) {
    std::sort(values.begin(), values.end());
    return values[values.size() / 2];
}

}  // namespace

std::vector<std::string> start_up_kernels() {
    std::vector<std::string> names;
    for (const Start& start : starts) names.emplace_back(start.name);
    return names;
}

StartUp start_up_here(const Device& device, const std::string& kernel) {
    const Start& start = start_of(kernel);
    if (device.is_host()) return on_host(device.target(), start);
    const Stream stream = device.stream();
    const std::function<void()> launch = start.prepared(stream);
    stream.synchronize();
    const auto begin = Clock::now();
    launch();
    StartUp times = split_of(Engine::of(stream).counters(), since(begin));
    times.launch =
        times.total - times.record - times.lower - times.emit - times.digest - times.disk - times.compile - times.load;
    stream.synchronize();
    return times;
}

std::string start_up_line(const StartUp& times) {
    std::string line;
    for (const auto column : columns) line += fmt::format("{} ", times.*column);
    return line + fmt::format("{}\n", times.compile);
}

StartUp start_up_from(const std::string& line) {
    std::istringstream words(line);
    StartUp times;
    for (const auto column : columns) words >> times.*column;
    words >> times.compile;
    if (!words) throw UsageError(fmt::format("a process of the start-up bench failed and printed \"{}\"", line));
    return times;
}

std::string start_up_head() {
    return fmt::format("{:<36} {:>7} {:>7} {:>7} {:>7} {:>7} {:>7} {:>7} {:>8}\n", "ms", "record", "lower", "emit",
                       "digest", "disk", "load", "launch", "total");
}

std::string start_up_row(const std::string& kernel, const std::vector<StartUp>& processes) {
    std::string row = fmt::format("{:<36}", kernel);
    for (const auto column : columns) {
        std::vector<double> values;
        for (const StartUp& times : processes) values.push_back(times.*column);
        row += fmt::format(" {:>{}.2f}", median(values), column == &StartUp::total ? 8 : 7);
    }
    return row + "\n";
}

}  // namespace tessera::bench
