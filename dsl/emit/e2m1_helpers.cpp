#include <fmt/format.h>
#include <string_view>

#include "dsl/emit/helpers.hpp"
#include "dsl/emit/writer.hpp"

// E2M1, eight codes a word, the first in the lowest four bits.
//
// To E2M1 without an instruction for it (before SM100): with e = ±max(2^⌊log2|y|⌋, 1), adding (2^m + 3) · e to y pushes
// y's mantissa so far down that the addition itself rounds y to the code's step (1/2, 1 or 2), ties to even. What is
// left in the low bits is n + 6 for n steps above the binade's start, and in the exponent the binade b; the code is
// n + 2b, and one multiply-add brings it, with the sign, to the top four bits. What is known to lie within ±7 needs no
// clamp from below, and the one from above only for NaN.

namespace tessera::emit {

namespace {

constexpr const char* names[] = {"a", "b", "c", "d", "e", "f", "g", "h"};

std::string list(const char* type, int count) {
    std::string out;
    for (int i = 0; i < count; ++i) out += fmt::format("{}{} {}", i == 0 ? "" : ", ", type, names[i]);
    return out;
}

std::string head(const std::string& name, const char* type, int count) {
    return wrapped(fmt::format("__device__ __forceinline__ unsigned {}({}) {{", name, list(type, count)), 0);
}

/// What its helpers are called after.
std::string source(const char* type, bool bounded) { return bounded ? std::string("bounded_") + type : type; }

Helper top_from_f32(bool bounded) {
    const std::string name = "e2m1_top_from_" + source("f32", bounded);
    return {name,
            fmt::format("__device__ __forceinline__ unsigned {}(float y) {{\n    const float z = {};\n", name,
                        bounded ? "fminf(y, 6.0f)" : "fmaxf(fminf(y, 6.0f), -6.0f)") +
                R"(    float e;
    asm("max.xorsign.abs.f32 %0, %1, %2;"
        : "=f"(e)
        : "f"(__uint_as_float(__float_as_uint(z) & 0xff800000u)), "f"(1.0f));
    const unsigned r = __float_as_uint(__fmaf_rn(e, 4194307.0f, z));
    return r * 0x10000040u + (r & 0x80000000u);
}
)",
            {}};
}

/// From the last value to the first, each code enters a word from below.
Helper from_f32(int count, bool bounded) {
    const std::string name = fmt::format("e2m1x{}_from_{}", count, source("f32", bounded));
    const std::string top = "e2m1_top_from_" + source("f32", bounded);
    std::string text = head(name, "float", count) + "\n";
    text += fmt::format("    unsigned r = {}({}) >> 28;\n", top, names[count - 1]);
    for (int i = count - 2; i >= 0; --i) text += fmt::format("    r = __funnelshift_l({}({}), r, 4);\n", top, names[i]);
    return {name, text + "    return r;\n}\n", {top}};
}

/// The conversion of a pair, once for each byte.
Helper from_f32_of_sm100(int count, bool bounded) {
    const std::string name = fmt::format("e2m1x{}_from_{}", count, source("f32", bounded));
    std::string text = head(name, "float", count) + "\n    unsigned r;\n    asm(\"{ ";
    std::string bytes, inputs;
    for (int i = 0; i < std::max(1, count / 2); ++i) bytes += fmt::format("{}p{}", i == 0 ? "" : ", ", i);
    text += fmt::format(".reg .b8 {}; \"\n", bytes);
    for (int i = 0; i < std::max(1, count / 2); ++i)
        text += fmt::format("        \"cvt.rn.satfinite.e2m1x2.f32 p{}, %{}, %{}; \"\n", i, 2 * i + 2, 2 * i + 1);
    for (int i = 0; i < count; ++i) inputs += fmt::format("{}\"f\"({})", i == 0 ? "" : ", ", names[i]);
    if (count == 1) inputs += ", \"f\"(0.0f)";
    if (count == 4)
        text +=
            "        \".reg .b16 low, high; cvt.u16.u8 low, p0; cvt.u16.u8 high, p1; \"\n"
            "        \"shl.b16 high, high, 8; or.b16 low, low, high; cvt.u32.u16 %0, low; }\"\n";
    else
        text += count == 8 ? fmt::format("        \"mov.b32 %0, {{{}}}; }}\"\n", bytes)
                           : "        \"cvt.u32.u8 %0, p0; }\"\n";
    return {name, text + fmt::format("        : \"=r\"(r)\n        : {});\n    return r;\n}}\n", inputs), {}, 100};
}

/// `magic` is (2^m + 3) in bf16, 2^m in f16, whose exponent adds up to a multiple of 16 by itself; `factor` brings n
/// and b to the top of each half.
struct HalfConstants {
    const char *type, *six, *minus_six, *exponent, *one, *magic, *factor;
};
constexpr HalfConstants half_constants[] = {
    {"bf16", "0x40c040c0u", "0xc0c0c0c0u", "0xff80ff80u", "0x3f803f80u", "0x42864286u", "4160u"},
    {"f16", "0x46004600u", "0xc600c600u", "0xfc00fc00u", "0x3c003c00u", "0x60006000u", "4104u"}};

/// Two halves at once, where a value of the code's format in them is exact.
Helper top_from_halves(const HalfConstants& c, bool bounded) {
    const std::string least = fmt::format("min_{}x2", c.type), largest = fmt::format("max_{}x2", c.type);
    const std::string name = fmt::format("e2m1_top_from_{}x2", source(c.type, bounded));
    const std::string below_six = fmt::format("{}(y, {})", least, c.six);
    std::vector<std::string> needs = {least};
    if (!bounded) needs.push_back(largest);
    return {name,
            fmt::format(R"(__device__ __forceinline__ unsigned {6}(unsigned y) {{
    const unsigned z = {1};
    unsigned e, r;
    asm("max.xorsign.abs.{0}x2 %0, %1, %2;" : "=r"(e) : "r"(z & {2}), "r"({3}));
    asm("fma.rn.{0}x2 %0, %1, %2, %3;" : "=r"(r) : "r"(e), "r"({4}), "r"(z));
    return r * {5} + (r & 0x80008000u);
}}
)",
                        c.type, bounded ? below_six : fmt::format("{}({}, {})", largest, below_six, c.minus_six),
                        c.exponent, c.one, c.magic, c.factor, name),
            needs};
}

/// Two f16 of at most eight significant bits, below 7. y · 1022 is rounded to multiples of 2⁻²⁴ (from 2 on of 2⁻²³,
/// from 4 on of 2⁻²²); 512 times that, taken from y / 32, leaves y rounded to the code's step, times 2⁻¹⁴: as FP16,
/// whose exponent and first bit after the point are the code. Longer y would be rounded twice.
Helper top_from_bounded_f16() {
    return {"e2m1_top_from_bounded_f16x2",
            R"(__device__ __forceinline__ unsigned e2m1_top_from_bounded_f16x2(unsigned y) {
    const unsigned z = mul_f16x2(y, 0x28002800u);
    unsigned r;
    asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(r) : "r"(mul_f16x2(y, 0x03fe03feu)), "r"(0xe000e000u), "r"(z));
    return select_bits(0x70007000u, r << 3, z);
}
)",
            {"mul_f16x2", "select_bits"}};
}

/// The codes stand in the top four bits of each half, above what means nothing; in `r` and `s` in the high halves of
/// bytes, even ones first.
std::vector<Helper> from_halves(const std::string& type) {
    const std::string top = fmt::format("e2m1_top_from_{}x2", type);
    const auto helper = [&](int codes, const char* body) {
        const std::string name = fmt::format("e2m1x{}_from_{}", codes, type);
        std::string text = head(name, "unsigned", codes / 2) + body;
        for (std::size_t at; (at = text.find("TOP")) != std::string::npos;) text.replace(at, 3, top);
        return Helper{name, text,
                      codes == 8 ? std::vector<std::string>{top, "select_bits"} : std::vector<std::string>{top}};
    };
    return {helper(2, R"(
    const unsigned r = TOP(a);
    return ((r >> 12) & 0x0fu) | ((r >> 24) & 0xf0u);
}
)"),
            helper(4, R"(
    const unsigned r = __byte_perm(TOP(a), TOP(b), 0x7351);
    return ((r >> 4) & 0x0f0fu) | ((r >> 16) & 0xf0f0u);
}
)"),
            helper(8, R"(
    const unsigned r = __byte_perm(TOP(a), TOP(b), 0x7351);
    const unsigned s = __byte_perm(TOP(c), TOP(d), 0x7351);
    return select_bits(0x0f0f0f0fu, __byte_perm(r, s, 0x5410) >> 4, __byte_perm(r, s, 0x7632));
}
)")};
}

Helper from_halves_of_sm100(const std::string& type, int codes, bool bounded) {
    std::string values;
    for (int i = 0; i < codes / 2; ++i)
        values += type == "bf16" ? fmt::format("{0}__uint_as_float({1} << 16), __uint_as_float({1} & 0xffff0000u)",
                                               i == 0 ? "" : ",\n        ", names[i])
                                 : fmt::format("{0}f32_from_f16({1}, 0), f32_from_f16({1}, 1)",
                                               i == 0 ? "" : ",\n        ", names[i]);
    const std::string name = fmt::format("e2m1x{}_from_{}", codes, source(type.c_str(), bounded)),
                      by_way_of = fmt::format("e2m1x{}_from_f32", codes);
    std::vector<std::string> needs = {by_way_of};
    if (type == "f16") needs.push_back("f32_from_f16");
    return {name,
            fmt::format("__device__ __forceinline__ unsigned {}({}) {{\n    return {}(\n        {});\n}}\n", name,
                        list("unsigned", codes / 2), by_way_of, values),
            needs, 100};
}

/// Two codes to two halves. Byte 1 and byte 3 get a code each, in the high four bits, byte 2 eight copies of the lower
/// code's sign: one arithmetic shift then puts both signs and both magnitudes where the format has them, as subnormal
/// numbers that one multiplication lifts.
Helper to_halves(const char* name, int shift, const char* mask, const char* multiply, const char* factor) {
    return {name,
            fmt::format(R"(__device__ __forceinline__ unsigned {}(unsigned word, int pair) {{
    const unsigned spread = permute_bytes(word << 4, word, 0x4800 + 0x1111 * pair);
    return {}((unsigned)((int)spread >> {}) & {}, {});
}}
)",
                        name, multiply, shift, mask, factor),
            {"permute_bytes", multiply}};
}

Helper to_f32() {
    return {"f32_from_e2m1",
            R"(__device__ __forceinline__ float f32_from_e2m1(unsigned word, int lane) {
    return __uint_as_float((unsigned)((int)(word << (28 - 4 * lane)) >> 6) & 0x81c00000u) * 0x1p126f;
}
)",
            {}};
}

/// Four codes pick bytes of a table: 0, 1/2, 1, 3/2 and 2, 3, 4, 6.
Helper to_e4m3() {
    return {"e4m3x4_from_e2m1",
            R"(__device__ __forceinline__ unsigned e4m3x4_from_e2m1(unsigned word, int half) {
    const unsigned magnitudes = permute_bytes(0x3c383000u, 0x4c484440u, (word & 0x77777777u) >> (16 * half));
    const unsigned signs = permute_bytes(word << 4, word, 0x5140 + 0x2222 * half);
    return magnitudes | (signs & 0x80808080u);
}
)",
            {"permute_bytes"}};
}

}  // namespace

std::vector<Helper> e2m1_helpers() {
    std::vector<Helper> all = {
        {"permute_bytes",
         R"(__device__ __forceinline__ unsigned permute_bytes(unsigned a, unsigned b, unsigned selector) {
    unsigned r;
    asm("prmt.b32 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(selector));
    return r;
}
)",
         {}},
        {"select_bits",
         R"(__device__ __forceinline__ unsigned select_bits(unsigned mask, unsigned a, unsigned b) {
    unsigned r;
    asm("lop3.b32 %0, %1, %2, %3, 0xca;" : "=r"(r) : "r"(mask), "r"(a), "r"(b));
    return r;
}
)",
         {}},
        to_f32(),
        to_halves("bf16x2_from_e2m1", 6, "0x81c081c0u", "mul_bf16x2", "0x7e807e80u"),
        to_halves("f16x2_from_e2m1", 3, "0x8e008e00u", "mul_f16x2", "0x74007400u"),
        to_e4m3(),
    };
    for (const bool bounded : {false, true}) {
        all.push_back(top_from_f32(bounded));
        for (const HalfConstants& constants : half_constants)
            all.push_back(bounded && std::string_view(constants.type) == "f16" ? top_from_bounded_f16()
                                                                               : top_from_halves(constants, bounded));
        for (const int codes : {1, 2, 4, 8}) all.push_back(from_f32(codes, bounded));
        for (const int codes : {1, 2, 4, 8}) all.push_back(from_f32_of_sm100(codes, bounded));
        for (const HalfConstants& constants : half_constants) {
            for (Helper& helper : from_halves(source(constants.type, bounded))) all.push_back(std::move(helper));
            for (const int codes : {2, 4, 8}) all.push_back(from_halves_of_sm100(constants.type, codes, bounded));
        }
    }
    return all;
}

}  // namespace tessera::emit
