#include "runtime/launch/plan.hpp"

#include <algorithm>
#include <cstring>

#include "dsl/base/error.hpp"
#include "runtime/launch/errors.hpp"
#include "runtime/launch/scalar_bits.hpp"

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

/// True if the program alone tells that is_row_major holds for what fits it.
bool is_apart(const TensorPlan& plan) {
    std::int64_t span = 1;
    for (std::size_t axis = plan.axes.size(); axis-- > 0;) {
        const AxisPlan& a = plan.axes[axis];
        if (a.inner > 1 || !a.stride.is_constant() || a.stride({}) < span) return false;
        if (axis > 0 && !a.extent.is_constant()) return false;
        if (axis > 0) span += (a.extent({}) - 1) * a.stride({});
    }
    return true;
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

/// What the constructor gathers for LaunchChecks.
struct LaunchPlan::Lists {
    std::vector<TensorCheck> tensors;
    std::vector<ScalarBinding> scalars;
    std::vector<LayoutCheck> layouts;
    std::vector<Term> terms;
};

namespace {

TensorCheck check_of(const TensorPlan& plan) {
    return {static_cast<std::uint32_t>(plan.align - 1), plan.type, static_cast<std::uint8_t>(plan.axes.size()),
            plan.written, plan.packed};
}

ScalarBinding binding_of(const ScalarPlan& plan, const std::string& name) {
    using From = ScalarBinding::From;
    ScalarBinding binding{plan.multiple_of, name.c_str(), From::given, plan.type, 0, 0};
    if (plan.sources.empty()) return binding;
    const Source& first = plan.sources.front();
    binding.from = !first.stride ? From::extent : plan.sources.size() > 1 ? From::first_used_stride : From::stride;
    binding.tensor = static_cast<std::uint8_t>(first.tensor), binding.axis = static_cast<std::uint8_t>(first.axis);
    return binding;
}

}  // namespace

LaunchPlan::LaunchPlan(std::shared_ptr<const ir::Program> program) : program_(std::move(program)) {
    const ir::Program& p = *program_;
    if (p.tensors.size() + p.scalars.size() > most_arguments)
        throw UsageError(p.place, "kernel " + p.name + " has " + std::to_string(p.tensors.size() + p.scalars.size()) +
                                      " parameters; at most " + std::to_string(most_arguments) + " can be launched");
    for (const ir::ScalarParam& s : p.scalars) scalars_.push_back({s.type, s.multiple_of, {}});
    for (const ir::TensorParam& t : p.tensors) {
        TensorPlan& plan = tensors_.emplace_back();
        plan.type = t.type;
        plan.written = t.role != ir::Role::input;
        plan.align = static_cast<std::uintptr_t>(t.align > 0 ? t.align : 1);
        for (const ir::Axis& a : t.axes) {
            plan.axes.push_back({Term(a.extent), Term(a.stride), a.inner, a.inner_stride});
            plan.packed |= a.inner > 1;
        }
    }
    Lists lists;
    for (int t = 0; t < static_cast<int>(tensors_.size()); ++t) plan_layout(t, lists);
    for (const TensorPlan& t : tensors_) lists.tensors.push_back(check_of(t));
    for (std::size_t i = 0; i < scalars_.size(); ++i)
        lists.scalars.push_back(binding_of(scalars_[i], p.scalars[i].name));
    for (ir::Ref extent : p.grid) lists.terms.emplace_back(extent);
    checks_ = LaunchChecks(lists.tensors, lists.scalars, lists.layouts, lists.terms, p.grid.size());
}

void LaunchPlan::plan_layout(int index, Lists& lists) {
    using What = LayoutCheck::What;
    const TensorPlan& plan = tensors_[static_cast<std::size_t>(index)];
    const auto tensor = static_cast<std::uint8_t>(index);
    if (plan.packed) return lists.layouts.push_back({What::packed, tensor});
    const int rank = static_cast<int>(plan.axes.size());
    for (int a = 0; a < rank; ++a)
        plan_axis(index, a, What::extent, plan.axes[static_cast<std::size_t>(a)].extent, lists);
    for (int a = 0; a < rank; ++a)
        plan_axis(index, a, What::stride, plan.axes[static_cast<std::size_t>(a)].stride, lists);
    if (plan.written && !is_apart(plan)) lists.layouts.push_back({What::apart, tensor});
}

/// An extent or stride is where a scalar is taken from, or is compared; the first source of a scalar need not be.
void LaunchPlan::plan_axis(int index, int axis, LayoutCheck::What what, const Term& term, Lists& lists) {
    using Expected = LayoutCheck::Expected;
    if (term.scalar() >= 0) {
        std::vector<Source>& sources = scalars_[static_cast<std::size_t>(term.scalar())].sources;
        sources.push_back({index, axis, what == LayoutCheck::What::stride});
        if (sources.size() == 1) return;
    }
    LayoutCheck check{what, static_cast<std::uint8_t>(index), static_cast<std::uint8_t>(axis)};
    if (term.is_constant()) {
        check.number = term({});
    } else if (term.scalar() >= 0) {
        check.expected = Expected::scalar, check.number = term.scalar();
    } else {
        check.expected = Expected::term, check.number = static_cast<std::int64_t>(lists.terms.size());
        lists.terms.push_back(term);
    }
    lists.layouts.push_back(check);
}

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
