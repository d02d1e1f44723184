#include "tools/tessera/checkpoint.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fmt/format.h>

#include "dsl/base/convert.hpp"
#include "dsl/base/error.hpp"
#include "runtime/json.hpp"

namespace tessera::tool {

namespace {

constexpr std::size_t piece_bytes = std::size_t{1} << 20;

bool is_weight(const StoredTensor& tensor) {
    const bool known =
        tensor.type == StoredType::F32 || tensor.type == StoredType::BF16 || tensor.type == StoredType::F16;
    return known && tensor.shape.size() == 2 && tensor.bytes() != 0;
}

void check_finite(const SafetensorsFile& file, const StoredTensor& tensor, const std::vector<float>& values) {
    for (std::size_t i = 0; i < values.size(); ++i) {
        if (std::isfinite(values[i])) continue;
        const auto columns = static_cast<std::size_t>(tensor.shape[1]);
        throw UsageError(
            fmt::format("{}: the weight {} is {} at [{}, {}], which no scale can hold; repair the checkpoint",
                        file.path(), json::shown(tensor.name), values[i], i / columns, i % columns));
    }
}

/// The weight as a kernel takes it: F32 and BF16 as they are, F16 widened to F32.
struct KernelInput {
    Element element;
    std::vector<std::byte> bytes;
};

KernelInput kernel_input(const SafetensorsFile& file, const StoredTensor& tensor) {
    const std::vector<float> values = values_of(file, tensor);
    check_finite(file, tensor, values);
    if (tensor.type == StoredType::BF16) return {Element::bf16, file.read(tensor)};
    std::vector<std::byte> bytes(values.size() * sizeof(float));
    if (!bytes.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
    return {Element::f32, std::move(bytes)};
}

void append_tensor(SafetensorsWriter& writer, const std::string& name, const Tensor& tensor, const Stream& stream) {
    const Tensor host = tensor.to_host(stream);
    writer.append(name, {host.as<const std::byte>(), static_cast<std::size_t>(host.bytes())});
}

void quantize_tensor(const Stream& stream, const SafetensorsFile& file, const StoredTensor& tensor,
                     const quant::BlockCastOptions& options, SafetensorsWriter& writer) {
    const KernelInput input = kernel_input(file, tensor);
    const Shape extents{tensor.shape[0], tensor.shape[1]};
    const Tensor x = Tensor::from_host(stream, input.element, extents, input.bytes.data());
    const quant::Quantized pair = quant::per_block_cast(stream, x, options);
    append_tensor(writer, tensor.name, pair.data, stream);
    append_tensor(writer, tensor.name + scale_suffix, pair.sf, stream);
}

/// Calls visit(bytes) for the tensor piece by piece.
template <class Visit>
void for_each_piece(const SafetensorsFile& file, const StoredTensor& tensor, Visit&& visit) {
    std::vector<std::byte> piece;
    for (std::uint64_t at = 0; at < tensor.bytes(); at += piece.size()) {
        piece.resize(std::min<std::uint64_t>(piece_bytes, tensor.bytes() - at));
        file.read(tensor, at, piece);
        visit(at, piece);
    }
}

const StoredTensor& written(const SafetensorsFile& file, const std::string& name, StoredType type) {
    const StoredTensor* found = file.find(name);
    if (!found || found->type != type) {
        throw UsageError(
            fmt::format("{}: the tensor {} is not there as {}, although it was written; do not change the "
                        "file meanwhile",
                        file.path(), json::shown(name), name_of(type)));
    }
    return *found;
}

void check_copy(const SafetensorsFile& before, const SafetensorsFile& after, const StoredTensor& tensor) {
    const StoredTensor& copy = written(after, tensor.name, tensor.type);
    for_each_piece(before, tensor, [&](std::uint64_t at, const std::vector<std::byte>& piece) {
        std::vector<std::byte> other(piece.size());
        after.read(copy, at, other);
        if (other == piece) return;
        throw UsageError(
            fmt::format("{}: the copied tensor {} differs from its original; check the disk and the memory",
                        after.path(), json::shown(tensor.name)));
    });
}

}  // namespace

BlockGrid PlannedTensor::grid(const quant::BlockCastOptions& options) const {
    return {stored.shape[0], stored.shape[1], options.block_rows, options.block_columns};
}

std::vector<PlannedTensor> plan_checkpoint(const SafetensorsFile& file) {
    std::vector<PlannedTensor> plan;
    for (const StoredTensor& tensor : file.tensors()) {
        if (tensor.name.ends_with(scale_suffix)) {
            throw UsageError(
                fmt::format("{}: the tensor {} ends in {}, as the scales of quantized weights do; give a "
                            "checkpoint that is not quantized yet",
                            file.path(), json::shown(tensor.name), scale_suffix));
        }
        plan.push_back({tensor, is_weight(tensor)});
    }
    return plan;
}

std::vector<NewTensor> planned_outputs(const std::vector<PlannedTensor>& plan, const quant::BlockCastOptions& options) {
    std::vector<NewTensor> outputs;
    for (const PlannedTensor& tensor : plan) {
        const StoredTensor& stored = tensor.stored;
        if (!tensor.quantized) {
            outputs.push_back({stored.name, stored.type, stored.shape});
            continue;
        }
        const BlockGrid grid = tensor.grid(options);
        outputs.push_back({stored.name, StoredType::F8_E4M3, stored.shape});
        outputs.push_back({stored.name + scale_suffix, StoredType::F32, {grid.scale_rows(), grid.scale_columns()}});
    }
    return outputs;
}

std::vector<float> values_of(const SafetensorsFile& file, const StoredTensor& tensor) {
    const std::vector<std::byte> bytes = file.read(tensor);
    std::vector<float> values(bytes.size() * 8 / static_cast<std::size_t>(bits_of(tensor.type)));
    if (tensor.type == StoredType::F32) {
        if (!bytes.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
        return values;
    }
    const bool half = tensor.type == StoredType::F16;
    for (std::size_t i = 0; i < values.size(); ++i) {
        std::uint16_t code = 0;
        std::memcpy(&code, &bytes[2 * i], 2);
        values[i] = half ? convert::from_f16(code) : convert::from_bf16(code);
    }
    return values;
}

void convert_checkpoint(const Stream& stream, const SafetensorsFile& file, const std::vector<PlannedTensor>& plan,
                        const quant::BlockCastOptions& options, SafetensorsWriter& writer,
                        const std::function<void(std::uint64_t)>& advance) {
    for (const PlannedTensor& tensor : plan) {
        if (tensor.quantized) {
            quantize_tensor(stream, file, tensor.stored, options, writer);
            advance(tensor.stored.bytes());
            continue;
        }
        for_each_piece(file, tensor.stored, [&](std::uint64_t, const std::vector<std::byte>& piece) {
            writer.append(tensor.stored.name, piece);
            advance(piece.size());
        });
    }
}

Quality measure_checkpoint(const SafetensorsFile& before, const SafetensorsFile& after,
                           const std::vector<PlannedTensor>& plan, const quant::BlockCastOptions& options,
                           const std::function<void(std::uint64_t)>& advance) {
    Quality quality;
    for (const PlannedTensor& tensor : plan) {
        if (tensor.quantized) {
            const std::string& name = tensor.stored.name;
            const std::vector<std::byte> codes = after.read(written(after, name, StoredType::F8_E4M3));
            const std::vector<float> scales = values_of(after, written(after, name + scale_suffix, StoredType::F32));
            quality.add(tensor.grid(options), values_of(before, tensor.stored),
                        {reinterpret_cast<const std::uint8_t*>(codes.data()), codes.size()}, scales);
        } else {
            check_copy(before, after, tensor.stored);
        }
        advance(tensor.stored.bytes());
    }
    return quality;
}

}  // namespace tessera::tool
