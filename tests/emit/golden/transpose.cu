// transpose for sm_90a: blocks of 64 threads, grid [(m + 63) / 64, (n + 63) / 64]

__device__ __forceinline__ void load_16_if(bool in, unsigned& a, unsigned& b, unsigned& c, unsigned& d, const void* p,
        unsigned fill) {
    asm("{ .reg .pred in; setp.ne.u32 in, %5, 0; "
        "mov.b32 %0, %6; mov.b32 %1, %6; mov.b32 %2, %6; mov.b32 %3, %6; "
        "@in ld.global.nc.v4.b32 {%0, %1, %2, %3}, [%4]; }"
        : "=&r"(a), "=&r"(b), "=&r"(c), "=&r"(d)
        : "l"(p), "r"((unsigned)in), "r"(fill));
}

__device__ __forceinline__ void load_shared_16(unsigned& a, unsigned& b, unsigned& c, unsigned& d, const void* p) {
    asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
        : "=r"(a), "=r"(b), "=r"(c), "=r"(d)
        : "r"((unsigned)__cvta_generic_to_shared(p))
        : "memory");
}

__device__ __forceinline__ void store_16_if(bool in, void* p, unsigned a, unsigned b, unsigned c, unsigned d) {
    asm volatile("{ .reg .pred in; setp.ne.u32 in, %5, 0; @in st.global.v4.b32 [%0], {%1, %2, %3, %4}; }"
        :
        : "l"(p), "r"(a), "r"(b), "r"(c), "r"(d), "r"((unsigned)in)
        : "memory");
}

__device__ __forceinline__ void store_shared_16(void* p, unsigned a, unsigned b, unsigned c, unsigned d) {
    asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};"
        :
        : "r"((unsigned)__cvta_generic_to_shared(p)), "r"(a), "r"(b), "r"(c), "r"(d)
        : "memory");
}

extern "C" __global__ void __launch_bounds__(64) transpose(
    const unsigned short* __restrict__ x,  // u16 [m, n], 16-byte aligned
    unsigned short* __restrict__ y,        // u16 [n, m], 16-byte aligned
    long long m,                           // i64, a multiple of 8
    long long n                            // i64, a multiple of 8
) {
    const long long block = blockIdx.x;
    const int thread = threadIdx.x;
    __builtin_assume(thread >= 0);
    __shared__ __align__(128) unsigned char shared_memory[8192];
    unsigned short* const tile = reinterpret_cast<unsigned short*>(shared_memory);  // u16 [64, 64], XOR swizzle (bits 3, base 3, shift 6)
    const long long tiles = (n + 63) / 64;
    const long long row = block / tiles * 64 + thread / 8 * 8;
    const long long col = block % tiles * 64 + thread % 8 * 8;
    unsigned v[32];  // u16 [64, 64], 8 x 8 a thread
    #pragma unroll
    for (int r = 0; r < 8; ++r) {
        load_16_if(row + r < m && col < n, v[r * 4], v[r * 4 + 1], v[r * 4 + 2], v[r * 4 + 3], x + (row + r) * n + col,
                0u);
    }  // r
    // the micro-tile's columns are the tile's rows
    const int tile_row = thread % 8 * 8;
    const int tile_col = thread / 8 * 8;
    const int plain = tile_row * 64 + tile_col;
    const int at = plain ^ (((plain >> 9) & 0x7) << 3);
    store_shared_16(tile + at, __byte_perm(v[0], v[4], 0x5410), __byte_perm(v[8], v[12], 0x5410),
            __byte_perm(v[16], v[20], 0x5410), __byte_perm(v[24], v[28], 0x5410));
    const int plain_2 = (tile_row + 1) * 64 + tile_col;
    const int at_2 = plain_2 ^ (((plain_2 >> 9) & 0x7) << 3);
    store_shared_16(tile + at_2, __byte_perm(v[0], v[4], 0x7632), __byte_perm(v[8], v[12], 0x7632),
            __byte_perm(v[16], v[20], 0x7632), __byte_perm(v[24], v[28], 0x7632));
    const int plain_3 = (tile_row + 2) * 64 + tile_col;
    const int at_3 = plain_3 ^ (((plain_3 >> 9) & 0x7) << 3);
    store_shared_16(tile + at_3, __byte_perm(v[1], v[5], 0x5410), __byte_perm(v[9], v[13], 0x5410),
            __byte_perm(v[17], v[21], 0x5410), __byte_perm(v[25], v[29], 0x5410));
    const int plain_4 = (tile_row + 3) * 64 + tile_col;
    const int at_4 = plain_4 ^ (((plain_4 >> 9) & 0x7) << 3);
    store_shared_16(tile + at_4, __byte_perm(v[1], v[5], 0x7632), __byte_perm(v[9], v[13], 0x7632),
            __byte_perm(v[17], v[21], 0x7632), __byte_perm(v[25], v[29], 0x7632));
    const int plain_5 = (tile_row + 4) * 64 + tile_col;
    const int at_5 = plain_5 ^ (((plain_5 >> 9) & 0x7) << 3);
    store_shared_16(tile + at_5, __byte_perm(v[2], v[6], 0x5410), __byte_perm(v[10], v[14], 0x5410),
            __byte_perm(v[18], v[22], 0x5410), __byte_perm(v[26], v[30], 0x5410));
    const int plain_6 = (tile_row + 5) * 64 + tile_col;
    const int at_6 = plain_6 ^ (((plain_6 >> 9) & 0x7) << 3);
    store_shared_16(tile + at_6, __byte_perm(v[2], v[6], 0x7632), __byte_perm(v[10], v[14], 0x7632),
            __byte_perm(v[18], v[22], 0x7632), __byte_perm(v[26], v[30], 0x7632));
    const int plain_7 = (tile_row + 6) * 64 + tile_col;
    const int at_7 = plain_7 ^ (((plain_7 >> 9) & 0x7) << 3);
    store_shared_16(tile + at_7, __byte_perm(v[3], v[7], 0x5410), __byte_perm(v[11], v[15], 0x5410),
            __byte_perm(v[19], v[23], 0x5410), __byte_perm(v[27], v[31], 0x5410));
    const int plain_8 = (tile_row + 7) * 64 + tile_col;
    const int at_8 = plain_8 ^ (((plain_8 >> 9) & 0x7) << 3);
    store_shared_16(tile + at_8, __byte_perm(v[3], v[7], 0x7632), __byte_perm(v[11], v[15], 0x7632),
            __byte_perm(v[19], v[23], 0x7632), __byte_perm(v[27], v[31], 0x7632));
    __syncthreads();
    unsigned w[4];
    #pragma unroll
    for (int r = 0; r < 8; ++r) {
        const int plain_9 = (r * 8 + thread / 8) * 64 + thread % 8 * 8;
        load_shared_16(w[0], w[1], w[2], w[3], tile + (plain_9 ^ (((plain_9 >> 9) & 0x7) << 3)));
        store_16_if(block % tiles * 64 + (r * 8 + thread / 8) < n && block / tiles * 64 + thread % 8 * 8 < m,
                y + (block % tiles * 64 + (r * 8 + thread / 8)) * m + block / tiles * 64 + thread % 8 * 8, w[0], w[1],
                w[2], w[3]);
    }  // r
}
