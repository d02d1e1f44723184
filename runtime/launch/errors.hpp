#pragma once

#include "runtime/launch/plan.hpp"

// The sentences of a refused launch. All of these throw UsageError; none is reached by a launch that works.

namespace tessera::runtime::launch_error {

[[noreturn]] void tensor_count(const LaunchPlan&, std::size_t got);
[[noreturn]] void device(const LaunchPlan&, int tensor, const Device& kernel, const TensorView&);
[[noreturn]] void element(const LaunchPlan&, int tensor, const TensorView&);
[[noreturn]] void rank(const LaunchPlan&, int tensor, const TensorView&);
[[noreturn]] void read_only(const LaunchPlan&, int tensor);
[[noreturn]] void null(const LaunchPlan&, int tensor);
[[noreturn]] void align(const LaunchPlan&, int tensor, const TensorView&);
[[noreturn]] void extent(const LaunchPlan&, int tensor, int axis, const TensorView&, std::int64_t expected);
[[noreturn]] void stride(const LaunchPlan&, int tensor, int axis, const TensorView&, std::int64_t expected);
[[noreturn]] void overlap(const LaunchPlan&, int tensor, const TensorView&);
[[noreturn]] void span(const LaunchPlan&, int tensor, std::int64_t expected_bytes, std::int64_t got_bytes);
[[noreturn]] void multiple(const LaunchPlan&, int scalar, std::int64_t got);
[[noreturn]] void scalars(const LaunchPlan&, std::span<const Scalar> given);
[[noreturn]] void scalar_value(const LaunchPlan&, int scalar, const Scalar&);
[[noreturn]] void grid(const LaunchPlan&, std::span<const std::uint64_t> values);

}  // namespace tessera::runtime::launch_error
