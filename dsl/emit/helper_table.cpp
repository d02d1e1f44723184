#include <fmt/format.h>

#include "dsl/emit/helpers.hpp"

// Narrow floats live in `unsigned`: "f16" means the low 16 bits, "f16x2" all of them. A `lane` is always a constant, so
// its choice costs nothing. In PTX the first source of a two-element conversion goes to the high half.

namespace tessera::emit {

namespace {

/// A function of two packed words that is one instruction.
Helper packed(const char* name, const char* instruction) {
    return {name,
            fmt::format(R"(__device__ __forceinline__ unsigned {}(unsigned a, unsigned b) {{
    unsigned r;
    asm("{} %0, %1, %2;" : "=r"(r) : "r"(a), "r"(b));
    return r;
}}
)",
                        name, instruction),
            {}};
}

/// Two floats to one word of two halves.
Helper to_halves(const char* name, const char* instruction) {
    return {name,
            fmt::format(R"(__device__ __forceinline__ unsigned {}(float low, float high) {{
    unsigned r;
    asm("{} %0, %2, %1;" : "=r"(r) : "f"(low), "f"(high));
    return r;
}}
)",
                        name, instruction),
            {}};
}

/// Two floats to the low two bytes of a word.
Helper to_two_bytes(const char* name, const char* instruction) {
    return {name,
            fmt::format(R"(__device__ __forceinline__ unsigned {}(float low, float high) {{
    unsigned r;
    asm("{{ .reg .b16 pair; {} pair, %2, %1; cvt.u32.u16 %0, pair; }}"
        : "=r"(r)
        : "f"(low), "f"(high));
    return r;
}}
)",
                        name, instruction),
            {}};
}

Helper to_four_bytes(const char* name, const char* instruction) {
    return {name,
            fmt::format(R"(__device__ __forceinline__ unsigned {0}(float a, float b, float c, float d) {{
    unsigned r;
    asm("{{ .reg .b16 low, high; "
        "{1} low, %2, %1; "
        "{1} high, %4, %3; "
        "mov.b32 %0, {{low, high}}; }}"
        : "=r"(r)
        : "f"(a), "f"(b), "f"(c), "f"(d));
    return r;
}}
)",
                        name, instruction),
            {}};
}

/// Element `lane` of two f16.
Helper from_half() {
    return {"f32_from_f16",
            R"(__device__ __forceinline__ float f32_from_f16(unsigned word, int lane) {
    float low, high;
    asm("{ .reg .b16 l, h; mov.b32 {l, h}, %2; cvt.f32.f16 %0, l; cvt.f32.f16 %1, h; }"
        : "=f"(low), "=f"(high)
        : "r"(word));
    return lane == 0 ? low : high;
}
)",
            {}};
}

/// Element `lane` of four bytes, by way of two f16.
Helper from_byte(const char* name, const char* instruction) {
    return {name,
            fmt::format(R"(__device__ __forceinline__ float {}(unsigned word, int lane) {{
    unsigned halves;
    asm("{{ .reg .b16 pair, rest; mov.b32 {{pair, rest}}, %1; {} %0, pair; }}"
        : "=r"(halves)
        : "r"(lane < 2 ? word : word >> 16));
    return f32_from_f16(halves, lane & 1);
}}
)",
                        name, instruction),
            {"f32_from_f16"}};
}

/// Rounded to odd: toward zero, then the last bit tells whether anything was lost. Rounding the result to a narrower
/// float gives what rounding the argument would give.
Helper round_to_odd(const char* name, const char* type, const char* toward_zero) {
    return {name,
            fmt::format(R"(__device__ __forceinline__ float {0}({1} x) {{
    const float r = {2}(x);
    return ({1})r == x ? r : __uint_as_float(__float_as_uint(r) | 1u);
}}
)",
                        name, type, toward_zero),
            {}};
}

Helper to_tf32() {
    return {"tf32_from_f32",
            R"(__device__ __forceinline__ float tf32_from_f32(float x) {
    unsigned r;
    asm("cvt.rn.tf32.f32 %0, %1;" : "=r"(r) : "f"(x));
    return __uint_as_float(r);
}
)",
            {}};
}

}  // namespace

std::span<const Helper> helper_table() {
    static const std::vector<Helper> table = {
        from_half(),
        from_byte("f32_from_e4m3", "cvt.rn.f16x2.e4m3x2"),
        from_byte("f32_from_e5m2", "cvt.rn.f16x2.e5m2x2"),
        round_to_odd("f32_odd_from_f64", "double", "__double2float_rz"),
        round_to_odd("f32_odd_from_i64", "long long", "__ll2float_rz"),
        round_to_odd("f32_odd_from_u64", "unsigned long long", "__ull2float_rz"),
        to_tf32(),
        to_halves("bf16x2_from_f32", "cvt.rn.bf16x2.f32"),
        to_halves("f16x2_from_f32", "cvt.rn.f16x2.f32"),
        to_two_bytes("e4m3x2_from_f32", "cvt.rn.satfinite.e4m3x2.f32"),
        to_four_bytes("e4m3x4_from_f32", "cvt.rn.satfinite.e4m3x2.f32"),
        to_two_bytes("e5m2x2_from_f32", "cvt.rn.satfinite.e5m2x2.f32"),
        to_four_bytes("e5m2x4_from_f32", "cvt.rn.satfinite.e5m2x2.f32"),
        packed("min_bf16x2", "min.bf16x2"),
        packed("max_bf16x2", "max.bf16x2"),
        packed("add_bf16x2", "add.rn.bf16x2"),
        packed("sub_bf16x2", "sub.rn.bf16x2"),
        packed("mul_bf16x2", "mul.rn.bf16x2"),
        packed("min_f16x2", "min.f16x2"),
        packed("max_f16x2", "max.f16x2"),
        packed("add_f16x2", "add.rn.f16x2"),
        packed("sub_f16x2", "sub.rn.f16x2"),
        packed("mul_f16x2", "mul.rn.f16x2"),
    };
    return table;
}

}  // namespace tessera::emit
