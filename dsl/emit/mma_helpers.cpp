#include <fmt/format.h>

#include "dsl/emit/c_types.hpp"
#include "dsl/emit/helpers.hpp"
#include "dsl/ir/tensor_core.hpp"

namespace tessera::emit {

namespace {

/// A function for a row of the table of instructions. `volatile` keeps it where all lanes of the warp are.
Helper product(const ir::TensorCoreInstruction& row) {
    const bool words = bits_of(row.type) < 32;
    const char* type = words ? "unsigned" : "float";
    std::string operands, registers;
    for (const char* name : {"a0", "a1", "a2", "a3", "b0", "b1"}) {
        operands += fmt::format(", {} {}", type, name);
        registers += fmt::format("{}\"r\"({})", registers.empty() ? "" : ", ",
                                 words ? name : fmt::format("__float_as_uint({})", name));
    }
    return {fmt::format("mma_{}", name_of(row.type)),
            fmt::format(R"(__device__ __forceinline__ void mma_{0}(float& d0, float& d1, float& d2, float& d3{1}) {{
    asm volatile(
        "mma.sync.aligned.{2} {{%0, %1, %2, %3}}, {{%4, %5, %6, %7}}, {{%8, %9}}, {{%0, %1, %2, %3}};"
        : "+f"(d0), "+f"(d1), "+f"(d2), "+f"(d3)
        : {3});
}}
)",
                        name_of(row.type), operands, row.name, registers),
            {}};
}

}  // namespace

std::vector<Helper> mma_helpers() {
    std::vector<Helper> all;
    for (const ir::TensorCoreInstruction& row : ir::tensor_core_instructions) all.push_back(product(row));
    return all;
}

}  // namespace tessera::emit
