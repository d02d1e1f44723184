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

void check_apart(const char* function, const char* out_name, const TensorView& out, const char* in_name,
                 const TensorView& in) {
    const auto begins_in = [](const TensorView& one, const TensorView& dense) {
        const auto at = reinterpret_cast<std::uintptr_t>(one.data),
                   begin = reinterpret_cast<std::uintptr_t>(dense.data);
        return dense.is_contiguous() && at >= begin && at - begin < static_cast<std::uintptr_t>(dense.bytes());
    };
    if (out.count() == 0 || in.count() == 0 || !(begins_in(in, out) || begins_in(out, in))) return;
    throw UsageError(
        fmt::format("{}: {} lies in the memory of {}, which is read while it is written; give it memory of "
                    "its own",
                    function, out_name, in_name));
}

}  // namespace tessera
