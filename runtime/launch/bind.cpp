#include <algorithm>
#include <cstring>

#include "runtime/launch/errors.hpp"
#include "runtime/launch/plan.hpp"
#include "runtime/launch/scalar_bits.hpp"

// What every launch does with a plan.

namespace tessera::runtime {

namespace {

std::int64_t magnitude(std::int64_t stride) { return stride < 0 ? -stride : stride; }

/// True if no two elements share an address, as far as the strides show: sorted by stride, every axis steps over the
/// whole of those before it.
bool is_free_of_overlap(const TensorView& view) {
    bool used[Shape::max_rank] = {};
    std::int64_t span = 1;
    for (int done = 0; done < view.rank(); ++done) {
        int next = -1;
        for (int axis = view.rank() - 1; axis >= 0; --axis)
            if (!used[axis] && (next < 0 || magnitude(view.strides[axis]) < magnitude(view.strides[next]))) next = axis;
        used[next] = true;
        if (view.extents[next] <= 1) continue;
        if (magnitude(view.strides[next]) < span) return false;
        span += (view.extents[next] - 1) * magnitude(view.strides[next]);
    }
    return true;
}

/// The same for the usual order, with the last axis running fastest, without sorting.
bool is_row_major(const TensorView& view) {
    std::int64_t span = 1;
    for (int axis = view.rank() - 1; axis >= 0; --axis) {
        if (view.extents[axis] <= 1) continue;
        if (magnitude(view.strides[axis]) < span) return false;
        span += (view.extents[axis] - 1) * magnitude(view.strides[axis]);
    }
    return true;
}

bool is_empty(const TensorView& view) {
    for (std::int64_t extent : view.extents)
        if (extent == 0) return true;
    return false;
}

bool is_multiple(std::int64_t value, std::int64_t of) {
    return (of & (of - 1)) == 0 ? (value & (of - 1)) == 0 : value % of == 0;  // a division takes as long as ten checks
}

/// Largest offset along an axis whose coordinate c lies at (c / inner) · stride + (c % inner) · inner_stride.
std::int64_t last_offset(std::int64_t extent, std::int64_t stride, std::int64_t inner, std::int64_t inner_stride) {
    const std::int64_t words = (extent - 1) / inner;
    const std::int64_t in_last_word = words * stride + (extent - 1) % inner * inner_stride;
    const std::int64_t before = words > 0 ? (words - 1) * stride + (inner - 1) * inner_stride : 0;
    return std::max(in_last_word, before);
}

/// For an axis whose stride no element uses: the dense one, brought up to the promised multiple.
std::int64_t unused_stride(const TensorView& view, int axis, std::int64_t multiple_of) {
    std::int64_t dense = 1;
    for (int inner = axis + 1; inner < view.rank(); ++inner) dense *= view.extents[inner];
    return (dense + multiple_of - 1) / multiple_of * multiple_of;
}

}  // namespace

void LaunchPlan::bind(const Device& device, std::span<const TensorRef> tensors, std::span<const Scalar> given,
                      std::uint64_t* values) const {
    const std::size_t count = checks_.tensors().size();
    if (tensors.size() != count) [[unlikely]]
        launch_error::tensor_count(*this, tensors.size());
    TensorSet empty = 0;
    for (std::size_t i = 0; i < count; ++i)
        empty |= TensorSet{check_kind(static_cast<int>(i), device, tensors[i])} << i;
    const std::span<const ScalarBinding> scalars = checks_.scalars();
    for (std::size_t i = 0; i < scalars.size(); ++i) bind_scalar(static_cast<int>(i), tensors, empty, values);
    if (checks_.given() > 0 || !given.empty()) take_given(given, values);
    check_layouts(tensors, empty, {values, scalars.size()});
    for (std::size_t i = 0; i < scalars.size(); ++i) {
        const std::int64_t multiple = scalars[i].multiple_of;
        const auto value = static_cast<std::int64_t>(values[i]);
        if (multiple > 1 && !is_multiple(value, multiple)) [[unlikely]]
            launch_error::multiple(*this, static_cast<int>(i), value);
    }
}

/// True if the tensor has no elements.
inline bool LaunchPlan::check_kind(int index, const Device& device, const TensorView& view) const {
    const TensorCheck& check = checks_.tensors()[static_cast<std::size_t>(index)];
    if (!device.shares_memory(view.device)) [[unlikely]]
        launch_error::device(*this, index, device, view);
    if (view.element != check.type) [[unlikely]]
        launch_error::element(*this, index, view);
    if (view.rank() != check.rank && !check.packed) [[unlikely]]
        launch_error::rank(*this, index, view);
    if (view.read_only && check.written) [[unlikely]]
        launch_error::read_only(*this, index);
    if (is_empty(view)) [[unlikely]]
        return true;
    if (!view.data) [[unlikely]]
        launch_error::null(*this, index);
    if ((reinterpret_cast<std::uintptr_t>(view.data) & check.low_bits) != 0) [[unlikely]]
        launch_error::align(*this, index, view);
    return false;
}

inline void LaunchPlan::bind_scalar(int index, std::span<const TensorRef> tensors, TensorSet empty,
                                    std::uint64_t* values) const {
    using From = ScalarBinding::From;
    const ScalarBinding& binding = checks_.scalars()[static_cast<std::size_t>(index)];
    if (binding.from == From::given) return;
    const TensorView& view = tensors[binding.tensor];
    if (binding.from == From::extent) {
        values[index] = static_cast<std::uint64_t>(view.extents[binding.axis]);
    } else if (view.extents[binding.axis] > 1 && (empty >> binding.tensor & 1) == 0) {
        values[index] = static_cast<std::uint64_t>(view.strides[binding.axis]);
    } else if (binding.from == From::stride) {
        values[index] = static_cast<std::uint64_t>(unused_stride(view, binding.axis, binding.multiple_of));
    } else {
        bind_shared_stride(index, tensors, empty, values);
    }
}

void LaunchPlan::bind_shared_stride(int index, std::span<const TensorRef> tensors, TensorSet empty,
                                    std::uint64_t* values) const {
    const ScalarPlan& plan = scalars_[static_cast<std::size_t>(index)];
    for (const Source& s : plan.sources) {
        const TensorView& view = tensors[static_cast<std::size_t>(s.tensor)];
        if (s.stride && (view.extents[s.axis] <= 1 || (empty >> s.tensor & 1) != 0)) continue;
        values[index] = static_cast<std::uint64_t>(s.stride ? view.strides[s.axis] : view.extents[s.axis]);
        return;
    }
    const Source& s = plan.sources.front();
    values[index] = static_cast<std::uint64_t>(
        unused_stride(tensors[static_cast<std::size_t>(s.tensor)], s.axis, plan.multiple_of));
}

void LaunchPlan::take_given(std::span<const Scalar> given, std::uint64_t* values) const {
    if (given.size() != checks_.given()) [[unlikely]]
        launch_error::scalars(*this, given);
    const std::span<const ScalarBinding> scalars = checks_.scalars();
    for (std::size_t i = 0; i < scalars.size(); ++i) {
        if (scalars[i].from != ScalarBinding::From::given) continue;
        const Scalar* found = nullptr;
        for (const Scalar& candidate : given)
            if (std::strcmp(candidate.name, scalars[i].name) == 0) found = &candidate;
        if (!found) [[unlikely]]
            launch_error::scalars(*this, given);
        if (!scalar_bits(scalars[i].type, *found, values[i])) [[unlikely]]
            launch_error::scalar_value(*this, static_cast<int>(i), *found);
    }
}

inline void LaunchPlan::check_layouts(std::span<const TensorRef> tensors, TensorSet empty,
                                      std::span<const std::uint64_t> values) const {
    using What = LayoutCheck::What;
    for (const LayoutCheck& check : checks_.layouts()) {
        const TensorView& view = tensors[check.tensor];
        if (check.what == What::extent) {
            check_axis(check, view, values);
        } else if (check.what == What::packed) {
            check_packed(check.tensor, view, values);
        } else if ((empty >> check.tensor & 1) != 0) {
            continue;
        } else if (check.what == What::stride) {
            if (view.extents[check.axis] > 1) check_axis(check, view, values);
        } else if (!is_row_major(view) && !is_free_of_overlap(view)) {
            launch_error::overlap(*this, check.tensor, view);
        }
    }
}

inline void LaunchPlan::check_axis(const LayoutCheck& check, const TensorView& view,
                                   std::span<const std::uint64_t> values) const {
    using Expected = LayoutCheck::Expected;
    const bool stride = check.what == LayoutCheck::What::stride;
    std::int64_t expected = check.number;
    if (check.expected == Expected::scalar)
        expected = static_cast<std::int64_t>(values[static_cast<std::size_t>(expected)]);
    else if (check.expected == Expected::term)
        expected = checks_.term(expected)(values);
    if (expected == (stride ? view.strides[check.axis] : view.extents[check.axis])) [[likely]]
        return;
    stride ? launch_error::stride(*this, check.tensor, check.axis, view, expected)
           : launch_error::extent(*this, check.tensor, check.axis, view, expected);
}

void LaunchPlan::check_packed(int index, const TensorView& view, std::span<const std::uint64_t> values) const {
    std::int64_t last = 0;
    for (const AxisPlan& axis : tensors_[static_cast<std::size_t>(index)].axes) {
        const std::int64_t extent = axis.extent(values), stride = magnitude(axis.stride(values));
        if (extent <= 0) return;
        last += last_offset(extent, stride, axis.inner, magnitude(axis.inner_stride));
    }
    const std::int64_t needed = ((last + 1) * bits_of(view.element) + 7) / 8;
    if (view.span_bytes() < needed) launch_error::span(*this, index, needed, view.span_bytes());
}

std::int64_t LaunchPlan::blocks(std::span<const std::uint64_t> values) const {
    constexpr std::int64_t most = 0x7FFFFFFF;
    std::int64_t product = 1;
    bool too_many = false;
    for (const Term& extent : checks_.grid()) {
        const std::int64_t e = extent(values);
        if (e <= 0) return 0;
        too_many = too_many || e > most || product * e > most;
        if (!too_many) product *= e;
    }
    if (too_many) launch_error::grid(*this, values);
    return product;
}

}  // namespace tessera::runtime
