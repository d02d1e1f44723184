#include "kernels/check.hpp"

#include <fmt/format.h>

#include "dsl/base/error.hpp"

namespace tessera {

void check_device(const char* function, const char* name, const Stream& stream, const TensorView& x) {
    if (!x.device.shares_memory(stream.device()))
        throw UsageError(fmt::format("{}: {} lies on {}, but the stream is of {}; copy it there first", function, name,
                                     x.device.name(), stream.device().name()));
}

void check_dense(const char* function, const char* name, const Stream& stream, const TensorView& x, Element element,
                 const Shape& extents) {
    if (x.element != element || !(x.extents == extents) || !x.is_contiguous())
        throw UsageError(fmt::format("{}: {} is {} {} with strides {}, but must be {} {} and dense", function, name,
                                     name_of(x.element), text_of(x.extents), text_of(x.strides), name_of(element),
                                     text_of(extents)));
    check_device(function, name, stream, x);
}

}  // namespace tessera
