#include "runtime/launch/errors.hpp"

#include <fmt/format.h>

#include "dsl/base/error.hpp"
#include "dsl/ir/print.hpp"
#include "dsl/ir/print_expression.hpp"

namespace tessera::runtime::launch_error {

namespace {

const ir::TensorParam& param(const LaunchPlan& plan, int tensor) {
    return plan.program().tensors[static_cast<std::size_t>(tensor)];
}

[[noreturn]] void refuse(const LaunchPlan& plan, const std::string& what) {
    throw UsageError(fmt::format("kernel {}: {}", plan.program().name, what));
}

/// The start of a sentence about a tensor: its name, and where it was declared.
[[noreturn]] void refuse(const LaunchPlan& plan, int tensor, const std::string& what) {
    const ir::TensorParam& p = param(plan, tensor);
    const std::string place = ir::print_place(p.place);
    refuse(plan, fmt::format("tensor {}{} {}", p.name, place.empty() ? "" : fmt::format(" ({})", place), what));
}

std::string expression_text(const LaunchPlan& plan, const Term& term) {
    const ir::detail::Names names(plan.program());
    return ir::detail::ExpressionPrinter(names, 200)(term.expression());
}

/// "4096", or "ceil… = 32": the value, with the expression where there is one.
std::string expected_text(const LaunchPlan& plan, const Term& term, std::int64_t value) {
    if (term.is_constant()) return fmt::format("{}", value);
    return fmt::format("{} = {}", expression_text(plan, term), value);
}

/// ", which axis 0 of x gave", for an expected value that is one scalar.
std::string origin_text(const LaunchPlan& plan, const Term& term) {
    if (term.scalar() < 0) return "";
    const ScalarPlan& scalar = plan.scalars()[static_cast<std::size_t>(term.scalar())];
    if (scalar.sources.empty()) return "";
    const Source& s = scalar.sources.front();
    return fmt::format(", which the {} of axis {} of {} gave", s.stride ? "stride" : "extent", s.axis,
                       param(plan, s.tensor).name);
}

std::string shape_text(const LaunchPlan& plan, int tensor) {
    std::string text;
    for (const AxisPlan& axis : plan.tensors()[static_cast<std::size_t>(tensor)].axes)
        text += (text.empty() ? "" : ", ") + expression_text(plan, axis.extent);
    return "[" + text + "]";
}

std::string signature(const LaunchPlan& plan) {
    std::string text;
    for (int i = 0; i < static_cast<int>(plan.tensors().size()); ++i) {
        const ir::TensorParam& p = param(plan, i);
        text += fmt::format("{}{} {} {}", text.empty() ? "" : ", ", p.name, name_of(p.type), shape_text(plan, i));
    }
    return text;
}

std::string given_names(const LaunchPlan& plan) {
    std::string text;
    for (std::size_t i = 0; i < plan.scalars().size(); ++i)
        if (plan.scalars()[i].sources.empty())
            text += fmt::format("{}{} ({})", text.empty() ? "" : ", ", plan.program().scalars[i].name,
                                name_of(plan.scalars()[i].type));
    return text.empty() ? "none" : text;
}

}  // namespace

void tensor_count(const LaunchPlan& plan, std::size_t got) {
    refuse(plan, fmt::format("it takes {} tensors, got {}; give, in this order: {}", plan.tensors().size(), got,
                             signature(plan)));
}

void device(const LaunchPlan& plan, int tensor, const Device& kernel, const TensorView& view) {
    refuse(plan, tensor,
           fmt::format(
               "must lie on {}, where the stream is, and lies on {}; copy it there, or use an engine and stream of "
               "{}",
               kernel.spelling(), view.device.spelling(), view.device.spelling()));
}

void element(const LaunchPlan& plan, int tensor, const TensorView& view) {
    refuse(plan, tensor,
           fmt::format("must be {}, got {}; convert it, or use the kernel recorded for {}",
                       name_of(param(plan, tensor).type), name_of(view.element), name_of(view.element)));
}

void rank(const LaunchPlan& plan, int tensor, const TensorView& view) {
    refuse(plan, tensor,
           fmt::format(
               "must have {} axes, {}, got {}: extents {}; add or drop axes of extent 1, or check the order of the "
               "tensors",
               param(plan, tensor).axes.size(), shape_text(plan, tensor), view.rank(), text_of(view.extents)));
}

void read_only(const LaunchPlan& plan, int tensor) {
    refuse(plan, tensor, "is written and was given read-only memory; make its view from a pointer that is not const");
}

void null(const LaunchPlan& plan, int tensor) {
    refuse(plan, tensor, "has elements but its address is null; give it memory");
}

void align(const LaunchPlan& plan, int tensor, const TensorView& view) {
    const auto address = reinterpret_cast<std::uintptr_t>(view.data);
    const int wanted = param(plan, tensor).align;
    refuse(plan, tensor,
           fmt::format(
               "must begin at a multiple of {} bytes, and begins at {:#x} ({} bytes past one); copy it, or use the "
               "kernel recorded for a smaller .align",
               wanted, address, address % static_cast<std::uintptr_t>(wanted)));
}

void extent(const LaunchPlan& plan, int tensor, int axis, const TensorView& view, std::int64_t expected) {
    const Term& term = plan.tensors()[static_cast<std::size_t>(tensor)].axes[static_cast<std::size_t>(axis)].extent;
    refuse(plan, tensor,
           fmt::format("must have extent {} along axis {}{}, got {} (extents {}); give tensors of one size, or use the "
                       "kernel recorded for this one",
                       expected_text(plan, term, expected), axis, origin_text(plan, term), view.extents[axis],
                       text_of(view.extents)));
}

void stride(const LaunchPlan& plan, int tensor, int axis, const TensorView& view, std::int64_t expected) {
    const Term& term = plan.tensors()[static_cast<std::size_t>(tensor)].axes[static_cast<std::size_t>(axis)].stride;
    refuse(plan, tensor,
           fmt::format("must have stride {} along axis {}{}, got {} (extents {}, strides {}, in elements); make it "
                       "contiguous, or record the kernel with a stride that is a dim",
                       expected_text(plan, term, expected), axis, origin_text(plan, term), view.strides[axis],
                       text_of(view.extents), text_of(view.strides)));
}

void overlap(const LaunchPlan& plan, int tensor, const TensorView& view) {
    refuse(
        plan, tensor,
        fmt::format("is written, and elements of the given view share addresses (extents {}, strides {}, in elements); "
                    "give memory where every element has its own place",
                    text_of(view.extents), text_of(view.strides)));
}

void span(const LaunchPlan& plan, int tensor, std::int64_t expected_bytes, std::int64_t got_bytes) {
    refuse(plan, tensor,
           fmt::format("is packed and needs {} bytes for extents {}, got a view over {}; give a view over all of them "
                       "(TensorView::raw)",
                       expected_bytes, shape_text(plan, tensor), got_bytes));
}

void multiple(const LaunchPlan& plan, int scalar, std::int64_t got) {
    const ir::ScalarParam& p = plan.program().scalars[static_cast<std::size_t>(scalar)];
    const ScalarPlan& s = plan.scalars()[static_cast<std::size_t>(scalar)];
    std::string from = "given";
    if (!s.sources.empty())
        from = fmt::format("the {} of axis {} of {}", s.sources.front().stride ? "stride" : "extent",
                           s.sources.front().axis, param(plan, s.sources.front().tensor).name);
    refuse(plan,
           fmt::format("{} must be a multiple of {}, got {} ({}); pad it, or use the kernel recorded without that fact",
                       p.name, p.multiple_of, got, from));
}

void scalars(const LaunchPlan& plan, std::span<const Scalar> given) {
    for (const Scalar& g : given) {
        for (std::size_t i = 0; i < plan.scalars().size(); ++i)
            if (plan.program().scalars[i].name == g.name && !plan.scalars()[i].sources.empty())
                refuse(plan, fmt::format("{} is taken from the {} of axis {} of {} and cannot be given; leave it out",
                                         g.name, plan.scalars()[i].sources.front().stride ? "stride" : "extent",
                                         plan.scalars()[i].sources.front().axis,
                                         param(plan, plan.scalars()[i].sources.front().tensor).name));
    }
    std::string got;
    for (const Scalar& g : given) got += fmt::format("{}{}", got.empty() ? "" : ", ", g.name);
    refuse(plan,
           fmt::format("the numbers to give at a launch are: {}; got: {}; give each once, as in Scalar(\"eps\", 1e-6f)",
                       given_names(plan), got.empty() ? "none" : got));
}

void scalar_value(const LaunchPlan& plan, int scalar, const Scalar& given) {
    const std::string value = given.is_real       ? fmt::format("{}", given.real)
                              : given.is_unsigned ? fmt::format("{}", static_cast<std::uint64_t>(given.integer))
                                                  : fmt::format("{}", given.integer);
    refuse(plan, fmt::format("the number {} is {} and cannot hold {}; give one of its type and range", given.name,
                             name_of(plan.scalars()[static_cast<std::size_t>(scalar)].type), value));
}

void grid(const LaunchPlan& plan, std::span<const std::uint64_t> values) {
    std::string text;
    for (ir::Ref extent : plan.program().grid)
        text += fmt::format("{}{}", text.empty() ? "" : " x ", Term(extent)(values));
    refuse(plan,
           fmt::format("a grid of {} blocks is more than the 2147483647 that a launch can have; split the tensors, or "
                       "give each block more to do",
                       text));
}

}  // namespace tessera::runtime::launch_error
