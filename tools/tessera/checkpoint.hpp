#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "kernels/quant.hpp"
#include "runtime/safetensors.hpp"
#include "tools/tessera/quality.hpp"

namespace tessera::tool {

inline constexpr const char* scale_suffix = "_scale_inv";

/// What becomes of one tensor of a checkpoint.
struct PlannedTensor {
    StoredTensor stored;
    bool quantized = false;  // else copied through

    BlockGrid grid(const quant::BlockCastOptions& options) const;
};

/// Every 2-D weight of F32, BF16 or F16 is quantized, everything else copied.
/// Errors: UsageError for a file that holds tensors named …_scale_inv already.
std::vector<PlannedTensor> plan_checkpoint(const SafetensorsFile& file);

/// The tensors of the new file: codes and scales of what is quantized, the others unchanged.
std::vector<NewTensor> planned_outputs(const std::vector<PlannedTensor>& plan, const quant::BlockCastOptions& options);

/// Values of a weight as F32; exact for all three types.
std::vector<float> values_of(const SafetensorsFile& file, const StoredTensor& tensor);

/// Quantizes and copies one tensor after another into `writer`, telling `advance` how many input bytes are done.
/// Errors: UsageError for a weight that is not finite, with its coordinates.
void convert_checkpoint(const Stream& stream, const SafetensorsFile& file, const std::vector<PlannedTensor>& plan,
                        const quant::BlockCastOptions& options, SafetensorsWriter& writer,
                        const std::function<void(std::uint64_t)>& advance);

/// Reads both files again and measures what the quantization lost.
/// Errors: UsageError if a copied tensor is not byte for byte what it was.
Quality measure_checkpoint(const SafetensorsFile& before, const SafetensorsFile& after,
                           const std::vector<PlannedTensor>& plan, const quant::BlockCastOptions& options,
                           const std::function<void(std::uint64_t)>& advance);

}  // namespace tessera::tool
