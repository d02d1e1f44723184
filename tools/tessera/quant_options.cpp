#include "tools/tessera/quant_options.hpp"

#include <algorithm>
#include <fmt/format.h>

#include "dsl/base/error.hpp"

namespace tessera::tool {

namespace {

/// A view of bytes as the packed values in them.
TensorView with_values(const TensorView& bytes, Element format, std::int64_t columns) {
    TensorView view = bytes;
    view.element = format;
    for (int axis = 0; axis + 1 < view.rank(); ++axis) view.strides[axis] = bytes.strides[axis] * 8 / bits_of(format);
    view.extents[view.rank() - 1] = columns;
    return view;
}

const CaseTensor& input(const Case& the_case, std::string_view name) {
    const CaseTensor* tensor = the_case.input(name);
    if (!tensor)
        throw UsageError(
            fmt::format("{}: the input {} is missing; quantized input comes with it", the_case.file, name));
    return *tensor;
}

}  // namespace

ScaleKind scale_kind(const Arguments& args, std::string_view key) {
    const std::string kind = args.text(key, "rowf");
    if (kind == "rowf") return {quant::ScaleLayout::row_major, false};
    if (kind == "rowp2") return {quant::ScaleLayout::row_major, true};
    if (kind == "colf") return {quant::ScaleLayout::column_major, false};
    if (kind == "colp2") return {quant::ScaleLayout::column_major, true};
    if (kind == "packed") return {quant::ScaleLayout::packed_ue8m0, true};
    throw UsageError(
        fmt::format("{}: {} is {}; use rowf, rowp2, colf, colp2 or packed", args.where(), key, json::shown(kind)));
}

ScaleKind output_scales(const Arguments& args) {
    if (!args.has("sf")) return {quant::ScaleLayout::row_major, args.flag("round_sf", false)};
    return scale_kind(args, "sf");
}

ScaleKind input_scales(const Arguments& args) { return scale_kind(args, args.has("in_sf") ? "in_sf" : "sf"); }

Element format_option(const Arguments& args, std::string_view key, const std::vector<Element>& allowed) {
    const std::string name = args.text(key, name_of(allowed.front()));
    std::string names;
    for (Element element : allowed) {
        // The specification says fp32 where this library says f32.
        if (name == name_of(element) || (name == "fp32" && element == Element::f32)) return element;
        names += (names.empty() ? "" : ", ") + std::string(name_of(element));
    }
    throw UsageError(fmt::format("{}: {} is {}; use one of {}", args.where(), key, json::shown(name), names));
}

BlockSize block_option(const Arguments& args, std::string_view key, BlockSize otherwise) {
    const std::vector<std::int64_t> block = args.numbers(key, {otherwise.rows, otherwise.columns});
    if (block.size() != 2) {
        throw UsageError(fmt::format("{}: {} has {} numbers; give rows and columns, such as 128x128", args.where(), key,
                                     block.size()));
    }
    return {block[0], block[1]};
}

std::int64_t columns_of(const Case& the_case, const CaseTensor& tensor, Element format) {
    const Element stored = format == e2m1 ? Element::i8 : format == e5m6 ? Element::u8 : format;
    if (element_of(tensor.type) != stored || tensor.shape.size() != 2) {
        throw UsageError(fmt::format("{}: {} is {} {}, but {} is stored as a matrix of {}", the_case.file, tensor.name,
                                     name_of(tensor.type), json::list(tensor.shape), name_of(format),
                                     name_of(stored_type_of(stored))));
    }
    const std::int64_t bits = tensor.shape[1] * bits_of(stored);
    if (bits % (packed_elements_of(format) * bits_of(format)) != 0) {
        throw UsageError(fmt::format("{}: {} has rows of {} bytes; {} shares bytes among {} values", the_case.file,
                                     tensor.name, bits / 8, name_of(format), packed_elements_of(format)));
    }
    return bits / bits_of(format);
}

void check_hidden(const Case& the_case, std::int64_t columns) {
    const std::int64_t said = the_case.args.number("hidden", columns);
    if (said != columns) {
        throw UsageError(
            fmt::format("{}: the option hidden is {}, but rows of the input x have {} values; correct one "
                        "of them",
                        the_case.file, said, columns));
    }
}

QuantizedInput::QuantizedInput(const Stream& stream, const Case& the_case, Element format, BlockSize block)
    : data_(stream, input(the_case, "x")), sf_(stream, input(the_case, "x_sf")) {
    const CaseTensor& x = input(the_case, "x");
    view_.data = with_values(data_, format, columns_of(the_case, x, format));
    view_.sf = sf_;
    view_.block_rows = block.rows;
    view_.block_columns = block.columns;
    // How the scales lie, their strides say; the option says what they are.
    const TensorView& sf = view_.sf;
    const bool columns = sf.rank() == 2 && sf.strides[0] == 1 && (sf.strides[1] != 1 || sf.extents[1] == 1);
    view_.scale_layout = input_scales(the_case.args).layout == quant::ScaleLayout::packed_ue8m0
                             ? quant::ScaleLayout::packed_ue8m0
                         : columns ? quant::ScaleLayout::column_major
                                   : quant::ScaleLayout::row_major;
}

Result download_codes(const Stream& stream, const std::string& name, const TensorView& codes) {
    const Element format = codes.element;
    if (format != e2m1 && format != e5m6) return download(stream, name, codes);
    TensorView bytes = codes;
    bytes.element = format == e2m1 ? Element::i8 : Element::u8;
    bytes.extents[1] = codes.extents[1] * bits_of(format) / 8;
    bytes.strides[0] = codes.strides[0] * bits_of(format) / 8;
    return download(stream, name, bytes);
}

Result download_scales(const Stream& stream, const std::string& name, const TensorView& sf, quant::ScaleLayout layout) {
    return layout == quant::ScaleLayout::row_major ? download(stream, name, sf) : download_columns(stream, name, sf);
}

Rule scale_rule(const ScaleKind& kind, std::int64_t columns, std::int64_t block_columns) {
    if (kind.layout != quant::ScaleLayout::packed_ue8m0) return {};
    return {(columns + block_columns - 1) / block_columns};
}

}  // namespace tessera::tool
