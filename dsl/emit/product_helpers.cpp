#include "dsl/emit/product_helpers.hpp"

#include <fmt/format.h>

#include "dsl/base/error.hpp"
#include "dsl/ir/tensor_core.hpp"

namespace tessera::emit {

std::string name_of(const ProductHelper& h) {
    return fmt::format("start_mma_{}_{}{}", name_of(h.type), h.columns, h.registers ? "_registers" : "");
}

/// The words of a row and those of the row 8 below take turns, two at a time.
std::string text_of(const ProductHelper& h) {
    const ir::TensorCoreInstruction* row = ir::tensor_core_instruction(h.type);
    require_internal(row && row->warpgroup, "tensor cores have no instruction of four warps for this type");
    const bool words = bits_of(h.type) < 32;
    const int sums = h.columns / 2;
    std::string outs, places;
    for (int i = 0; i < sums; ++i) {
        const int word = i / 4 * 2 + i % 2;
        places += fmt::format("{}%{}", i ? ", " : "", i);
        outs += fmt::format("{}\"+f\"({}[{}])", i ? ", " : "", i % 4 < 2 ? "d" : "below", word);
    }
    std::string left, ins, parameters;
    if (h.registers) {
        left = fmt::format("{{%{}, %{}, %{}, %{}}}", sums, sums + 1, sums + 2, sums + 3);
        for (int i = 0; i < 4; ++i) {
            ins += fmt::format("\"r\"({}), ", words ? fmt::format("a{}", i) : fmt::format("__float_as_uint(a{})", i));
            parameters += fmt::format("{} a{}, ", words ? "unsigned" : "float", i);
        }
    } else {
        left = fmt::format("%{}", sums);
        ins = "\"l\"(a), ";
        parameters = "unsigned long long a, ";
    }
    const int right = sums + (h.registers ? 4 : 1);
    // Added to what is there; neither operand negated; of 16 bits, matrices in shared memory lie along K.
    const char* const flags = bits_of(h.type) != 16 ? ", 1, 1" : h.registers ? ", 1, 1, 0" : ", 1, 1, 0, 0";
    return fmt::format(R"(__device__ __forceinline__ void {0}(float* d, int rows_apart, {1}unsigned long long b) {{
    float* const below = d + rows_apart;
    asm volatile(
        "{{ .reg .pred add; setp.eq.u32 add, 0, 0; "
        "wgmma.mma_async.sync.aligned.m64n{2}{3} {{{4}}}, {5}, %{6}, add{7}; }}"
        : {8}
        : {9}"l"(b));
}}
)",
                       name_of(h), parameters, h.columns, row->warpgroup, places, left, right, flags, outs, ins);
}

}  // namespace tessera::emit
