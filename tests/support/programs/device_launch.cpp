#include "tests/support/programs/device_launch.hpp"

#include <cstring>
#include <deque>
#include <exception>

#include "dsl/ir/evaluate.hpp"
#include "dsl/ir/program.hpp"
#include "dsl/lower/lower.hpp"
#include "runtime/engine.hpp"
#include "tests/support/kernels/guarded.hpp"
#include "tests/support/programs/evaluator.hpp"
#include "tests/support/programs/launch.hpp"

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

std::string check_on_device(const Device& device, std::uint64_t seed) {
    ProgramCase c = random_program(seed);
    const Buffers expected(c), got(c);
    evaluate(c.program.ir(), expected.bases(), c.scalars);
    try {
        const Stream stream = device.stream();
        const ir::Program& program = c.program.ir();
        std::deque<Guarded> memories;
        std::vector<TensorView> views;
        std::vector<Scalar> numbers;
        for (std::size_t i = 0; i < c.tensors.size(); ++i) {
            memories.emplace_back(stream, c.tensors[i], program.tensors[i].align);
            views.push_back(view_of(program.tensors[i], memories.back(), static_cast<std::int64_t>(c.tensors[i].size()),
                                    c.scalars));
        }
        std::deque<std::string> names;
        for (std::size_t i = 0; i < c.scalars.size(); ++i) {
            if (is_told_by_a_tensor(program, i)) continue;
            names.push_back(program.scalars[i].name);
            numbers.emplace_back(names.back().c_str(), static_cast<std::int64_t>(c.scalars[i]));
        }
        const auto lowered = std::make_shared<const ir::Program>(lower::lower(program, device.target()));
        Engine::of(device).compile_lowered(lowered).launch(stream, views, numbers);
        stream.synchronize();
        for (std::size_t i = 0; i < memories.size(); ++i) {
            const std::vector<std::uint8_t> now = memories[i].read(stream);
            if (!now.empty()) std::memcpy(got.bases()[i], now.data(), now.size());
        }
    } catch (const std::exception& error) {
        return error.what();
    }
    return first_difference(c, expected.bases(), got.bases());
}

}  // namespace tessera::test
