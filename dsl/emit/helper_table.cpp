#include <fmt/format.h>
#include <string_view>

#include "dsl/emit/helpers.hpp"

// Narrow floats live in `unsigned`: "f16" means the low 16 bits, "f16x2" all of them. A `lane` is always a constant, so
// its choice costs nothing. In PTX the first source of a two-element conversion goes to the high half.

namespace tessera::emit {

namespace {

/// A function of two packed words that is one instruction.
Helper packed(const std::string& name, const std::string& instruction) {
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

/// One word of two f16 to the low two bytes of a word, or two words to four bytes.
Helper two_bytes_from_halves(const char* name, const char* instruction) {
    return {name,
            fmt::format(R"(__device__ __forceinline__ unsigned {}(unsigned a) {{
    unsigned r;
    asm("{{ .reg .b16 pair; {} pair, %1; cvt.u32.u16 %0, pair; }}" : "=r"(r) : "r"(a));
    return r;
}}
)",
                        name, instruction),
            {}};
}
Helper four_bytes_from_halves(const char* name, const char* instruction) {
    return {name,
            fmt::format(R"(__device__ __forceinline__ unsigned {0}(unsigned a, unsigned b) {{
    unsigned r;
    asm("{{ .reg .b16 low, high; {1} low, %1; {1} high, %2; mov.b32 %0, {{low, high}}; }}"
        : "=r"(r)
        : "r"(a), "r"(b));
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

/// Elements 2 · pair and 2 · pair + 1 of four bytes, as two f16.
Helper halves_from_bytes(const char* name, const char* instruction) {
    return {name,
            fmt::format(R"(__device__ __forceinline__ unsigned {0}(unsigned word, int pair) {{
    unsigned low, high;
    asm("{{ .reg .b16 l, h; mov.b32 {{l, h}}, %2; {1} %0, l; {1} %1, h; }}"
        : "=r"(low), "=r"(high)
        : "r"(word));
    return pair == 0 ? low : high;
}}
)",
                        name, instruction),
            {}};
}

/// Element `lane` of four bytes, by way of two f16.
Helper from_byte(const char* name, const char* halves) {
    return {name,
            fmt::format(R"(__device__ __forceinline__ float {}(unsigned word, int lane) {{
    return f32_from_f16({}(word, lane / 2), lane % 2);
}}
)",
                        name, halves),
            {"f32_from_f16", halves}};
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

/// The bits of a / b where b and |a / b| are in [2⁻¹⁰⁰, 2¹⁰⁰] and |a| ≥ 2⁻¹⁰⁰, and for a = ±0: the sign of `t` keeps
/// that of a zero.
Helper divide_bounded() {
    return {"divide_bounded",
            R"(__device__ __forceinline__ float divide_bounded(float a, float b) {
    float y;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(b));
    y = __fmaf_rn(__fmaf_rn(-b, y, 1.0f), y, y);
    const float q = __fmul_rn(a, y);
    const float t = __fmaf_rn(q, b, -a);
    return __fmaf_rn(-t, y, q);
}
)",
            {}};
}

/// The larger or smaller of two floats, NaN if one is.
Helper keeping_nan(const char* name, const char* instruction) {
    return {name,
            fmt::format(R"(__device__ __forceinline__ float {}(float a, float b) {{
    float r;
    asm("{} %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b));
    return r;
}}
)",
                        name, instruction),
            {}};
}

Helper to_tf32() {
    return {"tf32_from_f32",
            R"(__device__ __forceinline__ float tf32_from_f32(float x) {
    unsigned r;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(r) : "f"(x));
    return __uint_as_float(r);
}
)",
            {}};
}

std::vector<Helper> whole_byte_helpers() {
    return {
        from_half(),
        halves_from_bytes("f16x2_from_e4m3", "cvt.rn.f16x2.e4m3x2"),
        halves_from_bytes("f16x2_from_e5m2", "cvt.rn.f16x2.e5m2x2"),
        from_byte("f32_from_e4m3", "f16x2_from_e4m3"),
        from_byte("f32_from_e5m2", "f16x2_from_e5m2"),
        divide_bounded(),
        keeping_nan("min_nan", "min.NaN.f32"),
        keeping_nan("max_nan", "max.NaN.f32"),
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
        two_bytes_from_halves("e4m3x2_from_f16", "cvt.rn.satfinite.e4m3x2.f16x2"),
        four_bytes_from_halves("e4m3x4_from_f16", "cvt.rn.satfinite.e4m3x2.f16x2"),
        two_bytes_from_halves("e5m2x2_from_f16", "cvt.rn.satfinite.e5m2x2.f16x2"),
        four_bytes_from_halves("e5m2x4_from_f16", "cvt.rn.satfinite.e5m2x2.f16x2"),
        packed("min_bf16x2", "min.bf16x2"),
        packed("max_bf16x2", "max.bf16x2"),
        packed("min_nan_bf16x2", "min.NaN.bf16x2"),
        packed("max_nan_bf16x2", "max.NaN.bf16x2"),
        packed("max_magnitude_bf16x2", "max.xorsign.abs.bf16x2"),
        packed("add_bf16x2", "add.rn.bf16x2"),
        packed("sub_bf16x2", "sub.rn.bf16x2"),
        packed("mul_bf16x2", "mul.rn.bf16x2"),
        packed("min_f16x2", "min.f16x2"),
        packed("max_f16x2", "max.f16x2"),
        packed("min_nan_f16x2", "min.NaN.f16x2"),
        packed("max_nan_f16x2", "max.NaN.f16x2"),
        packed("max_magnitude_f16x2", "max.xorsign.abs.f16x2"),
        packed("add_f16x2", "add.rn.f16x2"),
        packed("sub_f16x2", "sub.rn.f16x2"),
        packed("mul_f16x2", "mul.rn.f16x2"),
    };
}

/// One comparison of both halves of two words: 1 where it holds, else 0. NaN is unequal to all.
std::vector<Helper> comparison_helpers() {
    std::vector<Helper> all;
    for (const char* type : {"bf16", "f16"})
        for (const char* name : {"eq", "ne", "lt", "le", "gt", "ge"}) {
            const char* const op = std::string_view(name) == "ne" ? "neu" : name;
            all.push_back(
                packed(fmt::format("one_if_{}_{}x2", name, type), fmt::format("set.{}.{}x2.{}x2", op, type, type)));
        }
    return all;
}

}  // namespace

std::span<const Helper> helper_table() {
    // Never destroyed, as all tables: a thread may print a kernel while the process ends.
    static const auto& table = *[] {
        auto* all = new std::vector<Helper>(whole_byte_helpers());
        for (Helper& helper : comparison_helpers()) all->push_back(std::move(helper));
        for (Helper& helper : e2m1_helpers()) all->push_back(std::move(helper));
        for (Helper& helper : e5m6_helpers()) all->push_back(std::move(helper));
        for (Helper& helper : lookup_helpers()) all->push_back(std::move(helper));
        for (Helper& helper : mma_helpers()) all->push_back(std::move(helper));
        for (Helper& helper : copy_helpers()) all->push_back(std::move(helper));
        for (Helper& helper : role_helpers()) all->push_back(std::move(helper));
        all->push_back(report_helper());
        all->push_back(grid_sync_helper());
        return all;
    }();
    return table;
}

}  // namespace tessera::emit
