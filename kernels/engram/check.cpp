#include "kernels/engram/check.hpp"

#include <algorithm>
#include <fmt/format.h>

#include "dsl/base/error.hpp"

namespace tessera::engram {

void check_kind(const char* function, const char* name, const Stream& stream, const TensorView& x, Element element,
                int rank) {
    if (x.element != element || x.rank() != rank)
        throw UsageError(fmt::format("{}: {} is {} {}, but must be {} of rank {}", function, name, name_of(x.element),
                                     text_of(x.extents), name_of(element), rank));
    for (int i = 1; i < rank; ++i)
        if (x.extents[i] < 1)
            throw UsageError(fmt::format("{}: {} has extents {}; all but the first are at least 1", function, name,
                                         text_of(x.extents)));
    check_device(function, name, stream, x);
}

void check_weight(const char* function, const char* name, const Stream& stream, const TensorView& x) {
    check_kind(function, name, stream, x, bf16, 2);
    if (x.extents[0] < 1)
        throw UsageError(
            fmt::format("{}: {} has extents {}; there is at least one head", function, name, text_of(x.extents)));
    check_dense(function, name, stream, x, bf16, x.extents);
}

TensorView flat(const TensorView& x) {
    TensorView result = x;
    result.extents = {x.count()}, result.strides = {1};
    return result;
}

bool at_16_bytes(std::initializer_list<const TensorView*> views) {
    return std::all_of(views.begin(), views.end(),
                       [](const TensorView* v) { return reinterpret_cast<std::uintptr_t>(v->data) % 16 == 0; });
}

}  // namespace tessera::engram
