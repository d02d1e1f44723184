#include "tests/support/programs/run_on_device.hpp"

#include <deque>
#include <string>

#include "dsl/base/error.hpp"
#include "dsl/ir/evaluate.hpp"
#include "runtime/engine.hpp"
#include "tests/support/kernels/guarded.hpp"

namespace tessera::test {
namespace {

bool is_packed(const ir::TensorParam& tensor) {
    for (const auto& axis : tensor.axes)
        if (axis.inner > 1) return true;
    return false;
}

TensorView view_of(const ir::TensorParam& tensor, const Guarded& memory, std::int64_t bytes,
                   const std::vector<std::uint64_t>& scalars) {
    if (is_packed(tensor)) return memory.view(tensor.type, {bytes / (bits_of(tensor.type) / 8)}, {1});
    Shape extents, strides;
    for (const auto& axis : tensor.axes) {
        extents.push_back(ir::evaluate_integer(axis.extent, scalars));
        strides.push_back(ir::evaluate_integer(axis.stride, scalars));
    }
    return memory.view(tensor.type, extents, strides);
}

/// Whether some tensor's extent or stride is this number, so that the launch finds it by itself.
bool is_told_by_a_tensor(const ir::Program& program, std::size_t scalar) {
    for (const auto& tensor : program.tensors) {
        if (is_packed(tensor)) continue;
        for (const auto& axis : tensor.axes)
            for (const ir::Ref fact : {axis.extent, axis.stride})
                if (const auto* p = fact->as<ir::Parameter>(); p != nullptr && p->index == static_cast<int>(scalar))
                    return true;
    }
    return false;
}

}  // namespace

std::string run_on_device(const Device& device, const std::shared_ptr<const ir::Program>& lowered,
                          std::vector<std::vector<std::uint8_t>>& tensors, const std::vector<std::uint64_t>& scalars) {
    const Stream stream = device.stream();
    const ir::Program& program = *lowered;
    std::deque<Guarded> memories;
    std::vector<TensorView> views;
    for (std::size_t i = 0; i < tensors.size(); ++i) {
        memories.emplace_back(stream, tensors[i], program.tensors[i].align);
        views.push_back(
            view_of(program.tensors[i], memories.back(), static_cast<std::int64_t>(tensors[i].size()), scalars));
    }
    std::vector<Scalar> numbers;
    for (std::size_t i = 0; i < scalars.size(); ++i)
        if (!is_told_by_a_tensor(program, i))
            numbers.emplace_back(program.scalars[i].name.c_str(), static_cast<std::int64_t>(scalars[i]));
    std::string said;
    try {
        Engine::of(device).compile_lowered(lowered).launch(stream, views, numbers);
        stream.synchronize();
    } catch (const UsageError& error) {
        if (program.rules.empty()) throw;
        said = error.what();
    }
    for (std::size_t i = 0; i < memories.size(); ++i) tensors[i] = memories[i].read(stream);
    return said;
}

}  // namespace tessera::test
