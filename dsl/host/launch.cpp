#include "dsl/host/launch.hpp"

#include <fmt/format.h>

#include "dsl/base/error.hpp"
#include "dsl/ir/evaluate.hpp"

namespace tessera::host {

Launch::Launch(const ir::Program& lowered, const Arguments& given) : program(lowered), arguments(given) {
    if (given.tensors.size() != lowered.tensors.size() || given.scalars.size() != lowered.scalars.size())
        throw UsageError(fmt::format(
            "kernel '{}' takes {} tensors and {} scalars, but {} and {} were given; pass them in the order "
            "in which the kernel declares them",
            lowered.name, lowered.tensors.size(), lowered.scalars.size(), given.tensors.size(), given.scalars.size()));
    for (const ir::TensorParam& tensor : lowered.tensors) {
        Tensor t;
        for (const ir::Axis& axis : tensor.axes) {
            t.extents.push_back(ir::evaluate_integer(axis.extent, given.scalars));
            t.strides.push_back(ir::evaluate_integer(axis.stride, given.scalars));
        }
        tensors.push_back(std::move(t));
    }
    for (ir::Ref extent : lowered.grid) {
        grid.push_back(ir::evaluate_integer(extent, given.scalars));
        if (grid.back() < 0)
            throw UsageError(lowered.place,
                             fmt::format("the grid of kernel '{}' has the negative extent {} along axis {}; "
                                         "give it extents of at least 0",
                                         lowered.name, grid.back(), grid.size() - 1));
        blocks *= grid.back();
    }
}

}  // namespace tessera::host
