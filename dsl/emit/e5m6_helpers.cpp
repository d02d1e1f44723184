#include "dsl/emit/helpers.hpp"

// E5M6: in a register a code has 16 bits, the upper four of them 0; in memory eight codes share three words, each
// code's highest bits first.

namespace tessera::emit {

std::vector<Helper> e5m6_helpers() {
    return {
        // Truncated to a half, then to 12 bits. The carry looks at the 17 mantissa bits that a *normal* half drops: for
        // those it is round to nearest even; below 2⁻¹⁴ it is what the format's reference does. Adding 0xffff brings
        // "above 0x10000" to bit 17. The conversion of a pair is the cheaper instruction, for one value too.
        {"e5m6_from_f32",
         R"(__device__ __forceinline__ unsigned e5m6_from_f32(float x) {
    unsigned half;
    asm("cvt.rz.f16x2.f32 %0, %2, %1;" : "=r"(half) : "f"(x), "f"(0.0f));
    const unsigned code = half >> 4;
    return code + (((code & 1u) + (__float_as_uint(x) & 0x1ffffu) + 0xffffu) >> 17);
}
)",
         {}},
        {"e5m6x2_from_f32",
         R"(__device__ __forceinline__ unsigned e5m6x2_from_f32(float low, float high) {
    unsigned halves;
    asm("cvt.rz.f16x2.f32 %0, %2, %1;" : "=r"(halves) : "f"(low), "f"(high));
    const unsigned first = ((halves >> 4) & 1u) + (__float_as_uint(low) & 0x1ffffu) + 0xffffu;
    const unsigned second = ((halves >> 20) & 1u) + (__float_as_uint(high) & 0x1ffffu) + 0xffffu;
    return ((halves >> 4) & 0x0fff0fffu) + (first >> 17) + ((second >> 1) & 0x10000u);
}
)",
         {}},
        {"split_e5m6x8",
         R"(__device__ __forceinline__ void split_e5m6x8(unsigned& a, unsigned& b, unsigned& c, unsigned& d, unsigned x,
                                             unsigned y, unsigned z) {
    a = (x >> 20) | ((x << 8) & 0x0fff0000u);
    b = __byte_perm(__funnelshift_r(y, x, 28), y, 0x7610) & 0x0fff0fffu;
    c = __byte_perm(y >> 4, __funnelshift_r(z, y, 8), 0x7610) & 0x0fff0fffu;
    d = __byte_perm(z >> 12, z, 0x5410) & 0x0fff0fffu;
}
)",
         {}},
        {"join_e5m6x8",
         R"(__device__ __forceinline__ void join_e5m6x8(unsigned& x, unsigned& y, unsigned& z, unsigned a, unsigned b,
                                            unsigned c, unsigned d) {
    x = __byte_perm((a << 20) + (a >> 8), b >> 4, 0x3214);
    y = __byte_perm((c << 4) + (c >> 24), (b << 28) + b, 0x7610);
    z = __byte_perm((d << 12) + (d >> 16), c, 0x6210);
}
)",
         {}},
    };
}

}  // namespace tessera::emit
