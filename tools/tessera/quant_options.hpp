#pragma once

#include "kernels/quant.hpp"
#include "tools/tessera/device_tensor.hpp"

// What the quantization kernels' entries share: the options of the golden cases and their packed tensors.

namespace tessera::tool {

/// "sf" and "in_sf" of the golden files: one word for layout and rounding.
struct ScaleKind {
    quant::ScaleLayout layout = quant::ScaleLayout::row_major;
    bool rounded = false;
};
/// The option of that name; without it row-major. Errors: UsageError.
ScaleKind scale_kind(const Arguments& args, std::string_view key);
/// "sf"; without it row-major, rounded if `round_sf`.
ScaleKind output_scales(const Arguments& args);
/// "in_sf"; without it "sf".
ScaleKind input_scales(const Arguments& args);

/// The option of that name as one of `allowed`, the first without it. Errors: UsageError.
Element format_option(const Arguments& args, std::string_view key, const std::vector<Element>& allowed);

/// Rows and columns of a block. Errors: UsageError.
struct BlockSize {
    std::int64_t rows, columns;
};
BlockSize block_option(const Arguments& args, std::string_view key, BlockSize otherwise);

/// Columns of a case's tensor that holds codes of the format: packed ones are stored in bytes, E2M1 as I8, E5M6 as U8.
/// Errors: UsageError for another type, another rank or an incomplete pack.
std::int64_t columns_of(const Case& the_case, const CaseTensor& tensor, Element format);
/// Errors: UsageError unless the option "hidden", if given, is `columns`.
void check_hidden(const Case& the_case, std::int64_t columns);

/// A case's quantized input x, x_sf, which covers blocks of `block`.
class QuantizedInput {
public:
    QuantizedInput(const Stream& stream, const Case& the_case, Element format, BlockSize block);
    operator quant::QuantizedView() const { return view_; }
    std::int64_t columns() const { return view_.data.extents[1]; }

private:
    DeviceTensor data_, sf_;
    quant::QuantizedView view_;
};

/// Codes, packed ones as the bytes that the case files keep.
Result download_codes(const Stream& stream, const std::string& name, const TensorView& codes);
/// Scales, with the padding of those in columns.
Result download_scales(const Stream& stream, const std::string& name, const TensorView& sf, quant::ScaleLayout layout);

/// The rule for an output of scales of rows of `columns` values.
Rule scale_rule(const ScaleKind& kind, std::int64_t columns, std::int64_t block_columns);

}  // namespace tessera::tool
