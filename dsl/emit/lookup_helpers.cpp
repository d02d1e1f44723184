#include "dsl/emit/helpers.hpp"

namespace tessera::emit {

/// Codes pick entries of a table of 8; signs are those of the codes under a mask. A byte holds one entry, or two codes:
/// products with 17 put neighbours side by side.
std::vector<Helper> lookup_helpers() {
    return {
        {"u8_lookup",
         R"(__device__ __forceinline__ unsigned u8_lookup(unsigned code, unsigned low, unsigned high) {
    return permute_bytes(low, high, code & 7u) & 0xffu;
}
)",
         {"permute_bytes"}},
        {"u8x4_lookup",
         R"(__device__ __forceinline__ unsigned u8x4_lookup(unsigned codes, int half, unsigned low, unsigned high) {
    return permute_bytes(low, high, (codes & 0x77777777u) >> (16 * half));
}
)",
         {"permute_bytes"}},
        {"e4m3_lookup",
         R"(__device__ __forceinline__ unsigned e4m3_lookup(unsigned code, unsigned low, unsigned high, unsigned sign) {
    return u8_lookup(code, low, high) ^ ((code & sign) << 4);
}
)",
         {"u8_lookup"}},
        {"e4m3x4_lookup",
         R"(__device__ __forceinline__ unsigned e4m3x4_lookup(unsigned codes, int half, unsigned low, unsigned high,
        unsigned signs) {
    const unsigned tops = permute_bytes(codes << 4, codes, 0x5140 + 0x2222 * half);
    return u8x4_lookup(codes, half, low, high) ^ (tops & signs);
}
)",
         {"u8x4_lookup"}},
        {"e2m1_lookup",
         R"(__device__ __forceinline__ unsigned e2m1_lookup(unsigned code, unsigned table, unsigned sign) {
    return ((table >> (4 * (code & 7u))) ^ (code & sign)) & 0xfu;
}
)",
         {}},
        {"e2m1x8_lookup",
         R"(__device__ __forceinline__ unsigned e2m1x8_lookup(unsigned codes, unsigned table, unsigned signs) {
    const unsigned even = table & 0x0f0f0f0fu, odd = (table >> 4) & 0x0f0f0f0fu;
    const unsigned low = permute_bytes(even, odd, 0x5140), high = permute_bytes(even, odd, 0x7362);
    const unsigned magnitudes = codes & 0x77777777u;
    const unsigned a = permute_bytes(low, high, magnitudes) * 17u;
    const unsigned b = permute_bytes(low, high, magnitudes >> 16) * 17u;
    return permute_bytes(a >> 4, b >> 4, 0x6420) ^ (codes & signs);
}
)",
         {"permute_bytes"}}};
}

}  // namespace tessera::emit
