#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "dsl/ir/program.hpp"
#include "runtime/compiled_kernel.hpp"
#include "runtime/launch/checks.hpp"
#include "runtime/launch/scalar.hpp"
#include "runtime/launch/term.hpp"
#include "runtime/tensor_view.hpp"

namespace tessera::runtime {

struct AxisPlan {
    Term extent, stride;
    std::int64_t inner = 1, inner_stride = 0;
};

struct TensorPlan {
    Element type = Element::f32;
    bool written = false;
    bool packed = false;  // an axis has inner > 1: only type and bytes are checked, and nothing is bound
    std::uintptr_t align = 1;
    std::vector<AxisPlan> axes;
};

/// An extent or stride that consists of a scalar alone.
struct Source {
    int tensor, axis;
    bool stride;
};

struct ScalarPlan {
    Element type = Element::i64;
    std::int64_t multiple_of = 1;
    std::vector<Source> sources;  // none: the number is given by name
};

inline constexpr int most_arguments = 64;

/// How the arguments of a launch become the numbers of a kernel, worked out once: where each scalar comes from, what
/// each extent and stride must be.
class LaunchPlan {
public:
    /// Keeps the program. Errors: UsageError for more than 64 parameters.
    explicit LaunchPlan(std::shared_ptr<const ir::Program> program);

    /// Checks all arguments and writes the value of every scalar of the program, in its order, to `values` (room for
    /// most_arguments). Allocates nothing unless it throws. Errors: UsageError naming kernel, tensor, what is expected
    /// and what came, and the cure.
    void bind(const Device& device, std::span<const TensorRef> tensors, std::span<const Scalar> given,
              std::uint64_t* values) const;

    /// Number of blocks; 0: nothing to do. Errors: UsageError above 2³¹ − 1.
    std::int64_t blocks(std::span<const std::uint64_t> values) const;

    std::size_t scalar_count() const { return checks_.scalars().size(); }
    const ir::Program& program() const { return *program_; }
    const std::vector<TensorPlan>& tensors() const { return tensors_; }
    const std::vector<ScalarPlan>& scalars() const { return scalars_; }

private:
    using TensorSet = std::uint64_t;  // a bit each
    static_assert(most_arguments <= 64);

    struct Lists;
    void plan_layout(int index, Lists& lists);
    void plan_axis(int index, int axis, LayoutCheck::What what, const Term& term, Lists& lists);
    bool check_kind(int index, const Device& device, const TensorView& view) const;
    void bind_scalar(int index, std::span<const TensorRef> tensors, TensorSet empty, std::uint64_t* values) const;
    void bind_shared_stride(int index, std::span<const TensorRef> tensors, TensorSet empty,
                            std::uint64_t* values) const;
    void take_given(std::span<const Scalar> given, std::uint64_t* values) const;
    void check_layouts(std::span<const TensorRef> tensors, TensorSet empty,
                       std::span<const std::uint64_t> values) const;
    void check_axis(const LayoutCheck& check, const TensorView& view, std::span<const std::uint64_t> values) const;
    void check_packed(int index, const TensorView& view, std::span<const std::uint64_t> values) const;

    LaunchChecks checks_;  // what a launch reads; all else is for sentences, tensor maps and packed tensors
    std::shared_ptr<const ir::Program> program_;
    std::vector<TensorPlan> tensors_;
    std::vector<ScalarPlan> scalars_;
};

}  // namespace tessera::runtime
