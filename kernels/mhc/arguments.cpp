#include "kernels/mhc/arguments.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

#include "dsl/base/error.hpp"
#include "kernels/check.hpp"

namespace tessera::mhc {

namespace {

/// Whether the extents are leading axes of `tokens` in all, then `tail`.
bool fits(const Shape& extents, std::int64_t tokens, const Shape& tail) {
    const int leading = extents.rank() - tail.rank();
    if (leading < 0) return false;
    std::int64_t product = 1;
    for (int i = 0; i < leading; ++i) product *= extents[i];
    for (int i = 0; i < tail.rank(); ++i)
        if (extents[leading + i] != tail[i]) return false;
    return product == tokens;
}

}  // namespace

std::int64_t tokens_of(const char* function, const char* name, const TensorView& t, int tail) {
    if (t.rank() < tail)
        throw UsageError(fmt::format("{}: {} has extents {}; its last {} axes belong to one token", function, name,
                                     text_of(t.extents), tail));
    std::int64_t tokens = 1;
    for (int i = 0; i + tail < t.rank(); ++i) tokens *= t.extents[i];
    return tokens;
}

TensorView per_token(const char* function, const char* name, const Stream& stream, const TensorView& t, Element element,
                     std::int64_t tokens, const Shape& tail) {
    Shape with_one = tail;
    with_one.push_back(1);
    if (t.element != element || !t.is_contiguous() ||
        (!fits(t.extents, tokens, tail) && !fits(t.extents, tokens, with_one)))
        throw UsageError(
            fmt::format("{}: {} is {} {} with strides {}, but must be dense {} with {} tokens in its leading axes and "
                        "then {}",
                        function, name, name_of(t.element), text_of(t.extents), text_of(t.strides), name_of(element),
                        tokens, text_of(tail)));
    check_device(function, name, stream, t);
    TensorView result = t;
    result.extents = {tokens};
    for (int i = 0; i < tail.rank(); ++i) result.extents.push_back(tail[i]);
    result.strides = dense_strides(result.extents);
    return result;
}

TensorView strided_rows(const char* function, const char* name, const Stream& stream, const TensorView& t,
                        std::int64_t tokens, std::int64_t columns) {
    const auto refuse = [&] {
        throw UsageError(fmt::format(
            "{}: {} is {} {} with strides {}, but must be f32 with {} tokens in its leading axes, each {} numbers side "
            "by side and all one stride apart",
            function, name, name_of(t.element), text_of(t.extents), text_of(t.strides), tokens, columns));
    };
    const int last = t.rank() - 1;
    if (t.element != f32 || last < 0 || !fits(t.extents, tokens, {columns}) || (columns > 1 && t.strides[last] != 1))
        refuse();
    std::int64_t pitch = 0, inner = 1;  // of the leading axes, from the last one on
    for (int i = last - 1; i >= 0; --i) {
        if (t.extents[i] == 1) continue;
        if (pitch == 0) pitch = t.strides[i];
        if (t.strides[i] != pitch * inner || pitch < columns) refuse();
        inner *= t.extents[i];
    }
    check_device(function, name, stream, t);
    TensorView result = t;
    result.extents = {tokens, columns};
    // One token has no stride of its own; the kernel still checks its facts about it.
    result.strides = {pitch == 0 ? (columns + 3) / 4 * 4 : pitch, 1};
    return result;
}

TensorView parameter(const char* function, const char* name, const Stream& stream, const TensorView& t, Element element,
                     const Shape& extents) {
    check_dense(function, name, stream, t, element, extents);
    return t;
}

void check_streams(const char* function, std::int64_t m) {
    if (m < 1 || m > most_streams)
        throw UsageError(
            fmt::format("{}: a token has {} streams; from 1 to {} are supported", function, m, most_streams));
}

void check_hidden(const char* function, std::int64_t h) {
    if (h < 1) throw UsageError(fmt::format("{}: a stream has {} channels; it has at least one", function, h));
}

void check_eps(const char* function, const char* name, float eps) {
    if (!(eps >= 0) || std::isinf(eps))
        throw UsageError(fmt::format("{}: {} is {}; it is a finite number of at least 0", function, name, eps));
}

void check_repeat(const char* function, std::int64_t repeat) {
    constexpr std::int64_t most = 1 << 16;
    if (repeat < 1 || repeat > most)
        throw UsageError(fmt::format("{}: repeat is {}; from 1 to {} normalisations are made", function, repeat, most));
}

bool aligned(std::initializer_list<const TensorView*> tensors) {
    return std::all_of(tensors.begin(), tensors.end(),
                       [](const TensorView* t) { return reinterpret_cast<std::uintptr_t>(t->data) % 16 == 0; });
}

Shape with_tail(const Shape& leading, int tail, const Shape& last) {
    Shape result;
    for (int i = 0; i + tail < leading.rank(); ++i) result.push_back(leading[i]);
    for (int i = 0; i < last.rank(); ++i) result.push_back(last[i]);
    return result;
}

}  // namespace tessera::mhc
