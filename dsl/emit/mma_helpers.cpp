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

/// What stands around instructions that are under way. Registers are held on either side: else the compiler may write
/// one late, read one early, or give it to another value.
std::vector<Helper> group_helpers() {
    return {{"hold",
             R"(template <int N>
__device__ __forceinline__ void hold(float (&words)[N]) {
    #pragma unroll
    for (int i = 0; i < N; ++i) asm volatile("" : "+f"(words[i]) :: "memory");
}
template <int N>
__device__ __forceinline__ void hold(unsigned (&words)[N]) {
    #pragma unroll
    for (int i = 0; i < N; ++i) asm volatile("" : "+r"(words[i]) :: "memory");
}
)",
             {}},
            {"fence_mma",
             R"(__device__ __forceinline__ void fence_mma() {
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
)",
             {}},
            {"wait_mma",
             R"(__device__ __forceinline__ void wait_mma() {
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
}
)",
             {}},
            {"fence_proxy",
             R"(__device__ __forceinline__ void fence_proxy() {
    asm volatile("fence.proxy.async;" ::: "memory");
}
)",
             {}},
            // Start, distance of 8 rows, and swizzle of a matrix in shared memory, whose rows have so many bytes.
            {"matrix",
             R"(template <int RowBytes>
__device__ __forceinline__ unsigned long long matrix(const void* start) {
    const unsigned at = static_cast<unsigned>(__cvta_generic_to_shared(start));
    constexpr unsigned long long swizzle = RowBytes == 128 ? 1 : RowBytes == 64 ? 2 : 3;
    return (at & 0x3FFFFu) >> 4 | 1ull << 16 | (8ull * RowBytes >> 4) << 32 | swizzle << 62;
}
)",
             {}}};
}

}  // namespace

std::vector<Helper> mma_helpers() {
    std::vector<Helper> all;
    for (const ir::TensorCoreInstruction& row : ir::tensor_core_instructions) all.push_back(product(row));
    for (Helper& helper : group_helpers()) all.push_back(std::move(helper));
    return all;
}

}  // namespace tessera::emit
