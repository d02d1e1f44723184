#pragma once

#include <cstdint>
#include <vector>

#include "dsl/host/executor.hpp"
#include "dsl/ir/program.hpp"

namespace tessera::host {

/// A program with the numbers of one launch filled in.
struct Launch {
    struct Tensor {
        std::vector<std::int64_t> extents, strides;  // in elements, by axis
    };

    /// Errors: UsageError if the arguments are not those of the program or an extent of the grid is negative.
    Launch(const ir::Program& lowered, const Arguments& given);

    const ir::Program& program;
    const Arguments& arguments;
    std::vector<Tensor> tensors;
    std::vector<std::int64_t> grid;
    std::int64_t blocks = 1;
};

}  // namespace tessera::host
