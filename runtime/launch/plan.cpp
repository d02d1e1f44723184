#include "runtime/launch/plan.hpp"

#include <utility>

#include "dsl/base/error.hpp"

namespace tessera::runtime {

/// What the constructor gathers for LaunchChecks.
struct LaunchPlan::Lists {
    std::vector<TensorCheck> tensors;
    std::vector<ScalarBinding> scalars;
    std::vector<LayoutCheck> layouts;
    std::vector<Term> terms;
};

namespace {

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

}  // namespace tessera::runtime
