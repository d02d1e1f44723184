#pragma once

#include <cstddef>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>

#include "runtime/launch/scalar.hpp"
#include "runtime/stream.hpp"
#include "runtime/tensor_view.hpp"

namespace tessera {

namespace ir {
struct Program;
}
namespace runtime {
struct KernelState;
}

/// A tensor among the arguments of a launch: refers to a view, which must live until the launch has returned. A type of
/// one's own that makes a view by value is turned into one before: launch(stream, {TensorView(mine)}).
class TensorRef {
public:
    TensorRef(const TensorView& view) : view_(&view) {}
    /// Of a Tensor, and of whatever else gives a reference to its view.
    template <class T>
        requires requires(const T& t) { t.operator const TensorView&(); }
    TensorRef(const T& tensor) : view_(&tensor.operator const TensorView&()) {}
    operator const TensorView&() const { return *view_; }
    const TensorView* operator->() const { return view_; }

private:
    const TensorView* view_;
};

/// How one launch is done.
struct LaunchOptions {
    /// Programmatic dependent launch: the kernel is started while the kernel ahead of it in the stream still runs, and
    /// waits for that itself; saves the gap between the two. Only for kernels recorded with k.dependent_launch().
    bool dependent = false;
};

/// A kernel ready to run on one device. A cheap value; copies share it.
class CompiledKernel {
public:
    /// Runs the kernel: tensors in the order of its parameters, then the numbers that no tensor tells, by name.
    /// Dimensions are taken from the tensors' extents and strides; all arguments are checked before anything starts,
    /// and where the grid is empty nothing does. On a GPU the call returns at once, on the host when the work is done.
    /// A tensor with packed axes (scales in words) is checked only for type and bytes (TensorView::raw).
    /// Errors: UsageError naming kernel, tensor, what is expected, what came and the cure.
    void launch(const Stream& stream, std::initializer_list<TensorRef> tensors,
                std::initializer_list<Scalar> scalars = {}, const LaunchOptions& options = {}) const {
        launch(stream, std::span(tensors.begin(), tensors.size()), std::span(scalars.begin(), scalars.size()), options);
    }
    void launch(const Stream& stream, std::span<const TensorRef> tensors, std::span<const Scalar> scalars = {},
                const LaunchOptions& options = {}) const;
    void launch(const Stream& stream, std::span<const TensorView> tensors, std::span<const Scalar> scalars = {},
                const LaunchOptions& options = {}) const;

    const std::string& name() const;
    const Device& device() const;
    /// The program as it was recorded, and as it runs; ir::print (dsl/ir/print.hpp) gives the text of either.
    const ir::Program& program() const;
    const ir::Program& lowered() const;
    /// The CUDA text; on the host, the text for the target that it stands for.
    std::string cuda_text() const;
    /// Machine code, PTX and the compiler's log, which tells registers and spills. Empty on the host, where
    /// compile_for(program, target).log has them.
    std::span<const std::byte> cubin() const;
    const std::string& ptx() const;
    const std::string& log() const;

    explicit CompiledKernel(std::shared_ptr<const runtime::KernelState> state) : state_(std::move(state)) {}

private:
    std::shared_ptr<const runtime::KernelState> state_;
};

}  // namespace tessera
