#include "kernels/quant/channel.hpp"

#include <fmt/format.h>

#include "dsl/base/error.hpp"

namespace tessera::quant {

void check_channel_options(const char* function, const ChannelCastOptions& options) {
    if (options.num_per_tokens != 32 && options.num_per_tokens != 128)
        throw UsageError(
            fmt::format("{}: num_per_tokens is {}; it is 32 or 128 rows", function, options.num_per_tokens));
}

Shape channel_scales(std::int64_t rows, std::int64_t hidden, const ChannelCastOptions& options) {
    return {ceil_div(rows, options.num_per_tokens), hidden};
}

namespace {

void check_output(const char* function, const char* name, const TensorView& t, Element element, const Shape& extents) {
    if (t.element != element || !(t.extents == extents) || !t.is_contiguous())
        throw UsageError(fmt::format("{}: {} is {} {} with strides {}, but must be {} {} and dense", function, name,
                                     name_of(t.element), text_of(t.extents), text_of(t.strides), name_of(element),
                                     text_of(extents)));
}

}  // namespace

void check_channel_outputs(const char* function, const TensorView& data, const Shape& extents, const TensorView& sf,
                           std::int64_t rows, std::int64_t hidden, const ChannelCastOptions& options) {
    check_output(function, "data", data, e4m3, extents);
    check_output(function, "sf", sf, f32, channel_scales(rows, hidden, options));
}

TensorView pitched(const TensorView& x) {
    TensorView result = x;
    if (x.extents[0] <= 1) result.strides[0] = align_up(x.extents[1], 16);
    result.strides[1] = 1;
    return result;
}

}  // namespace tessera::quant
