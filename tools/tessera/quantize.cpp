#include <chrono>
#include <compare>
#include <filesystem>
#include <fmt/format.h>
#include <set>
#include <sys/stat.h>
#include <system_error>

#include "dsl/base/error.hpp"
#include "kernels/quant/cast_input.hpp"
#include "runtime/compiled.hpp"
#include "runtime/counters.hpp"
#include "runtime/nvrtc/find.hpp"
#include "tools/tessera/arguments.hpp"
#include "tools/tessera/checkpoint.hpp"
#include "tools/tessera/commands.hpp"
#include "tools/tessera/progress.hpp"

namespace tessera::tool {

namespace {

using Clock = std::chrono::steady_clock;

quant::BlockCastOptions options_of(const QuantizeRequest& request) {
    if (request.format != "e4m3") {
        throw UsageError(fmt::format("there is no quantization to {} yet; use e4m3", json::shown(request.format)));
    }
    const Arguments args = Arguments::from_words({"block=" + request.block});
    const std::vector<std::int64_t> block = args.numbers("block", {});
    if (block.size() != 2 || block[0] < 1 || block[1] < 1) {
        throw UsageError(
            fmt::format("the block {} is not rows and columns; write it like 128x128", json::shown(request.block)));
    }
    quant::BlockCastOptions options;
    options.block_rows = block[0];
    options.block_columns = block[1];
    return options;
}

void refuse_same_file(const QuantizeRequest& request) {
    struct stat input = {}, output = {};
    if (::stat(request.input.c_str(), &input) != 0 || ::stat(request.output.c_str(), &output) != 0) return;
    if (input.st_dev != output.st_dev || input.st_ino != output.st_ino) return;
    throw UsageError(fmt::format("the output {} is the input itself; give another name", request.output));
}

struct Timings {
    double convert_s = 0, measure_s = 0, compile_s = 0;
};

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

/// Compiles the kernels that the host ran, for both architectures: shows the whole path where there is no GPU.
int compile_for_gpus(const std::vector<PlannedTensor>& plan, const quant::BlockCastOptions& options) {
    struct Kernel {
        Element element;
        std::int64_t hidden;
        bool aligned;
        auto operator<=>(const Kernel&) const = default;
    };
    std::set<Kernel> kernels;
    for (const PlannedTensor& tensor : plan) {
        if (!tensor.quantized) continue;
        const Element element = tensor.stored.type == StoredType::BF16 ? Element::bf16 : Element::f32;
        const Shape extents{tensor.stored.shape[0], tensor.stored.shape[1]};
        void* const begin = nullptr;  // as aligned as the memory of any Tensor
        const TensorView rows = TensorView::of(Device::host(), begin, element, extents);
        kernels.insert({element, extents[1], quant::rows_aligned(rows, rows)});
    }
    int compiled = 0;
    for (const auto& [element, hidden, aligned] : kernels) {
        const Program program = quant::per_block_cast_program(element, hidden, options, aligned);
        for (const Target& target : {Target::h200(), Target::b200()}) {
            compile_for(program, target);
            ++compiled;
        }
    }
    return compiled;
}

/// 0 for a file that has gone meanwhile: the work itself is done.
std::uintmax_t bytes_on_disk(const std::string& path) {
    std::error_code gone;
    const std::uintmax_t bytes = std::filesystem::file_size(path, gone);
    return gone ? 0 : bytes;
}

void row(const char* topic, const std::string& text) { fmt::print("  {:<22} {}\n", topic, text); }

void print_report(const std::vector<PlannedTensor>& plan, const Quality& quality, const Timings& timings,
                  std::uintmax_t before, std::uintmax_t after) {
    std::size_t quantized = 0;
    for (const PlannedTensor& tensor : plan) quantized += tensor.quantized ? 1 : 0;
    row("tensors", fmt::format("{}: {} quantized, {} copied", plan.size(), quantized, plan.size() - quantized));
    row("values quantized", fmt::format("{}", quality.values()));
    row("bytes before", fmt::format("{}", before));
    row("bytes after",
        fmt::format("{} ({:.1f} %)", after,
                    before == 0 ? 0.0 : 100.0 * static_cast<double>(after) / static_cast<double>(before)));
    row("largest error", fmt::format("{:.3e} of the block's amax", quality.max_error()));
    row("mean error", fmt::format("{:.3e} of the block's amax", quality.mean_error()));
    row("signal to noise", fmt::format("{:.2f} dB", quality.signal_to_noise()));
    row("time", fmt::format("{:.2f} s to quantize and write, {:.2f} s to read back and compare", timings.convert_s,
                            timings.measure_s));
}

void print_counters(const Device& device, int compiled_for_gpus, double compile_s) {
    const Counters counters = process_counters();
    row("device", device.name());
    if (compiled_for_gpus != 0) {
        row("also compiled",
            fmt::format("{} kernels for sm_90a and sm_100a in {:.2f} s", compiled_for_gpus, compile_s));
    } else if (device.is_host()) {
        row("not compiled for GPUs", runtime::nvrtc_search().problem);
    }
    row("compiles", fmt::format("{} ({:.0f} ms)", counters.compiles, counters.compile_ms));
    row("cache", fmt::format("{} hits on disk, {} in memory, {} misses", counters.disk_hits, counters.memory_hits,
                             counters.misses));
}

StoredMetadata metadata_of(const SafetensorsFile& file, const QuantizeRequest& request) {
    StoredMetadata metadata = file.metadata();
    metadata["tessera_quantization"] = request.format;
    metadata["tessera_block"] = request.block;
    return metadata;
}

}  // namespace

int quantize(const QuantizeRequest& request) {
    const quant::BlockCastOptions options = options_of(request);
    refuse_same_file(request);
    const SafetensorsFile before = SafetensorsFile::open(request.input);
    const std::vector<PlannedTensor> plan = plan_checkpoint(before);
    const Device device = Device::parse(request.device);
    std::uint64_t total = 0;
    for (const PlannedTensor& tensor : plan) total += tensor.stored.bytes();
    Timings timings;

    auto begin = Clock::now();
    {
        SafetensorsWriter writer(request.output, planned_outputs(plan, options), metadata_of(before, request),
                                 request.force);
        Progress progress("quantizing", total);
        convert_checkpoint(device.stream(), before, plan, options, writer, [&](auto bytes) { progress.add(bytes); });
        writer.finish();
    }
    timings.convert_s = seconds_since(begin);

    begin = Clock::now();
    const SafetensorsFile after = SafetensorsFile::open(request.output);
    Quality quality;
    {
        Progress progress("reading back", total);
        quality = measure_checkpoint(before, after, plan, options, [&](auto bytes) { progress.add(bytes); });
    }
    timings.measure_s = seconds_since(begin);

    begin = Clock::now();
    const int compiled = device.is_host() && runtime::nvrtc_search().path ? compile_for_gpus(plan, options) : 0;
    timings.compile_s = seconds_since(begin);
    fmt::print("{} -> {} ({}, blocks of {})\n", request.input, request.output, request.format, request.block);
    print_report(plan, quality, timings, bytes_on_disk(request.input), bytes_on_disk(request.output));
    print_counters(device, compiled, timings.compile_s);
    return 0;
}

}  // namespace tessera::tool
