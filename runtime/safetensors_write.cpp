#include <algorithm>
#include <array>
#include <fmt/format.h>

#include "dsl/base/error.hpp"
#include "runtime/json.hpp"
#include "runtime/safetensors_header.hpp"

namespace tessera {

namespace {

/// Widest types first: then each tensor begins at a multiple of its own width without any gap.
std::vector<StoredTensor> laid_out(const std::string& path, const std::vector<NewTensor>& tensors) {
    std::vector<StoredTensor> result;
    for (const NewTensor& t : tensors) result.push_back({t.name, t.type, t.shape});
    std::sort(result.begin(), result.end(), [](const StoredTensor& a, const StoredTensor& b) {
        return bits_of(a.type) != bits_of(b.type) ? bits_of(a.type) > bits_of(b.type) : a.name < b.name;
    });
    std::uint64_t at = 0;
    for (StoredTensor& t : result) {
        std::uint64_t bytes = 0;
        std::string why;
        const bool negative = std::any_of(t.shape.begin(), t.shape.end(), [](std::int64_t e) { return e < 0; });
        if (negative) why = "has a negative extent";
        if (negative || !safetensors::bytes_of(t.type, t.shape, bytes, why)) {
            throw UsageError(fmt::format("the output {}: the tensor {} ({}) {}; give another shape", path,
                                         json::shown(t.name), describe(t), why));
        }
        t.begin = at;
        t.end = at += bytes;
    }
    return result;
}

}  // namespace

SafetensorsWriter::SafetensorsWriter(const std::string& path, const std::vector<NewTensor>& tensors,
                                     const StoredMetadata& metadata, bool overwrite)
    : file_(path, overwrite) {
    const std::vector<StoredTensor> layout = laid_out(path, tensors);
    for (const StoredTensor& t : layout) {
        if (t.name == safetensors::metadata_name || !slots_.emplace(t.name, Slot{t}).second) {
            throw UsageError(fmt::format("the output {}: the tensor name {} {}; rename one tensor", path,
                                         json::shown(t.name),
                                         t.name == safetensors::metadata_name ? "is reserved" : "stands twice"));
        }
    }
    const std::string text = safetensors::header_text(layout, metadata);
    if (text.size() > safetensors::largest_header) {
        throw UsageError(
            fmt::format("the output {}: its header would take {} bytes, more than the format's {}; write fewer "
                        "tensors to a file",
                        path, text.size(), safetensors::largest_header));
    }
    std::array<std::byte, 8> length;
    for (std::size_t i = 0; i < 8; ++i) length[i] = static_cast<std::byte>(text.size() >> (8 * i));
    data_begin_ = 8 + text.size();
    file_.write_at(0, length);
    file_.write_at(8, std::as_bytes(std::span(text)));
}

void SafetensorsWriter::append(std::string_view name, std::span<const std::byte> bytes) {
    const auto found = slots_.find(name);
    if (found == slots_.end()) {
        throw UsageError(fmt::format("the output {} has no tensor {}; name one that it was opened with", file_.path(),
                                     json::shown(name)));
    }
    Slot& slot = found->second;
    if (bytes.size() > slot.tensor.bytes() - slot.written) {
        throw UsageError(
            fmt::format("the output {}: the tensor {} ({}) takes {} bytes and was given more; check its shape",
                        file_.path(), json::shown(name), describe(slot.tensor), slot.tensor.bytes()));
    }
    file_.write_at(data_begin_ + slot.tensor.begin + slot.written, bytes);
    slot.written += bytes.size();
}

void SafetensorsWriter::finish() {
    for (const auto& [name, slot] : slots_) {
        if (slot.written == slot.tensor.bytes()) continue;
        throw UsageError(fmt::format("the output {}: the tensor {} ({}) was given {} of its {} bytes; write all of it",
                                     file_.path(), json::shown(name), describe(slot.tensor), slot.written,
                                     slot.tensor.bytes()));
    }
    file_.publish();
}

}  // namespace tessera
