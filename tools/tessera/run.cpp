#include <fmt/format.h>

#include "dsl/base/error.hpp"
#include "tools/tessera/commands.hpp"
#include "tools/tessera/verdict.hpp"

namespace tessera::tool {

namespace {

/// The strides of all tensors as the JSON object that case files keep.
std::string strides_text(const std::vector<std::pair<std::string, const CaseTensor*>>& tensors) {
    std::string text;
    for (const auto& [name, tensor] : tensors) {
        text += fmt::format("{}{}: {}", text.empty() ? "" : ", ", json::quote(name), json::list(tensor->strides));
    }
    return "{" + text + "}";
}

/// Inputs and outputs as a new case: `tessera verify` can hold another device to it.
void write_case(const RunRequest& request, const Case& the_case, const std::vector<Result>& results) {
    std::vector<std::pair<std::string, const CaseTensor*>> tensors;
    for (const CaseTensor& t : the_case.inputs) tensors.emplace_back("in." + t.name, &t);
    for (const Result& r : results) tensors.emplace_back("out." + r.tensor.name, &r.tensor);
    std::vector<NewTensor> layout;
    for (const auto& [name, tensor] : tensors) layout.push_back({name, tensor->type, tensor->shape});

    StoredMetadata metadata = SafetensorsFile::open(request.file).metadata();
    metadata["strides"] = strides_text(tensors);
    SafetensorsWriter writer(request.output, layout, metadata, request.force);
    for (const auto& [name, tensor] : tensors) writer.append(name, tensor->values);
    writer.finish();
}

}  // namespace

int run(const RunRequest& request) {
    const Case the_case = load_case(request.file);
    std::string why;
    const KernelEntry* kernel = kernel_for(the_case, why);
    if (!kernel) throw UsageError(fmt::format("{}: {}; `tessera list` names what there is", request.file, why));
    const Device device = Device::parse(request.device);
    const std::vector<Result> results = kernel->run(device.stream(), the_case);
    write_case(request, the_case, results);
    fmt::print("{} on {}:\n", the_case.kernel, device.name());
    for (const Result& r : results) {
        fmt::print("  out.{}  {} {}, strides {}\n", r.tensor.name, name_of(r.tensor.type), json::list(r.tensor.shape),
                   json::list(r.tensor.strides));
    }
    fmt::print("written to {}\n", request.output);
    return 0;
}

}  // namespace tessera::tool
