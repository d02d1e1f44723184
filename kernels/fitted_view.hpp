#pragma once

#include <optional>

#include "runtime/tensor_view.hpp"

namespace tessera {

/// A view as a kernel takes it: the given one, where that fits as it is, else a changed copy. Refers to the given one.
class FittedView {
public:
    explicit FittedView(const TensorView& given) : given_(&given) {}
    /// The copy, to be changed.
    TensorView& change() { return changed_ ? *changed_ : changed_.emplace(*given_); }
    operator const TensorView&() const { return changed_ ? *changed_ : *given_; }

private:
    const TensorView* given_;
    std::optional<TensorView> changed_;
};

}  // namespace tessera
