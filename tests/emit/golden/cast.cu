// per_token_cast for sm_90a: blocks of 128 threads, grid [(tokens + 3) / 4]

__device__ __forceinline__ unsigned e4m3x4_from_f32(float a, float b, float c, float d) {
    unsigned r;
    asm("{ .reg .b16 low, high; "
        "cvt.rn.satfinite.e4m3x2.f32 low, %2, %1; "
        "cvt.rn.satfinite.e4m3x2.f32 high, %4, %3; "
        "mov.b32 %0, {low, high}; }"
        : "=r"(r)
        : "f"(a), "f"(b), "f"(c), "f"(d));
    return r;
}

__device__ __forceinline__ unsigned max_bf16x2(unsigned a, unsigned b) {
    unsigned r;
    asm("max.bf16x2 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(b));
    return r;
}

__device__ __forceinline__ void load_16_if(bool in, unsigned& a, unsigned& b, unsigned& c, unsigned& d, const void* p,
        unsigned fill) {
    asm("{ .reg .pred in; setp.ne.u32 in, %5, 0; "
        "mov.b32 %0, %6; mov.b32 %1, %6; mov.b32 %2, %6; mov.b32 %3, %6; "
        "@in ld.global.nc.v4.b32 {%0, %1, %2, %3}, [%4]; }"
        : "=&r"(a), "=&r"(b), "=&r"(c), "=&r"(d)
        : "l"(p), "r"((unsigned)in), "r"(fill));
}

__device__ __forceinline__ void store_4_if(bool in, void* p, float a) {
    asm volatile("{ .reg .pred in; setp.ne.u32 in, %2, 0; @in st.global.b32 [%0], %1; }"
        :
        : "l"(p), "f"(a), "r"((unsigned)in)
        : "memory");
}

__device__ __forceinline__ void store_8_if(bool in, void* p, unsigned a, unsigned b) {
    asm volatile("{ .reg .pred in; setp.ne.u32 in, %3, 0; @in st.global.v2.b32 [%0], {%1, %2}; }"
        :
        : "l"(p), "r"(a), "r"(b), "r"((unsigned)in)
        : "memory");
}

extern "C" __global__ void __launch_bounds__(128) per_token_cast(
    const unsigned short* __restrict__ x,  // bf16 [tokens, 1024], 16-byte aligned
    unsigned char* __restrict__ y,         // e4m3 [tokens, 1024], 16-byte aligned
    float* __restrict__ sf,                // f32 [tokens, 8]
    long long tokens                       // i64
) {
    const long long block = blockIdx.x;
    const int thread = threadIdx.x;
    __builtin_assume(thread >= 0);
#line 12 "cast.cpp"
    // x.block({4, 1024})
    const long long row = block * 4;
    const long long col = thread * 8;
    const long long x_at = row * 1024 + col;
    unsigned x_v[16];  // bf16 [4, 1024] as (row 4 slots) (col 128 threads, 8 slots)
    #pragma unroll
    for (int r = 0; r < 4; ++r) {
        load_16_if(row + r < tokens, x_v[r * 4], x_v[r * 4 + 1], x_v[r * 4 + 2], x_v[r * 4 + 3], x + x_at + r * 1024,
                0u);
    }  // r
#line 13 "cast.cpp"
    float amax[4];  // f32 [4, 8]
    #pragma unroll
    for (int r = 0; r < 4; ++r) {
        const unsigned pair = max_bf16x2(max_bf16x2(x_v[r * 4] & 0x7fff7fffu, x_v[r * 4 + 1] & 0x7fff7fffu),
                max_bf16x2(x_v[r * 4 + 2] & 0x7fff7fffu, x_v[r * 4 + 3] & 0x7fff7fffu));
        amax[r] = __uint_as_float(max_bf16x2(pair, pair >> 16) << 16);
        amax[r] = fmaxf(amax[r], __shfl_xor_sync(0xffffffffu, amax[r], 8));
        amax[r] = fmaxf(amax[r], __shfl_xor_sync(0xffffffffu, amax[r], 4));
        amax[r] = fmaxf(amax[r], __shfl_xor_sync(0xffffffffu, amax[r], 2));
        amax[r] = fmaxf(amax[r], __shfl_xor_sync(0xffffffffu, amax[r], 1));
        amax[r] = fmaxf(amax[r], 0x1.a36e2ep-14f /* 0.0001 */);
    }  // r
#line 14 "cast.cpp"
    #pragma unroll
    for (int r = 0; r < 4; ++r) {
        store_4_if(thread % 16 == 0 && row + r < tokens, sf + (row + r) * 8 + thread / 16, amax[r] / 448.0f);
    }  // r
#line 15 "cast.cpp"
    #pragma unroll
    for (int r = 0; r < 4; ++r) {
        const float inverse = 448.0f / amax[r];
        store_8_if(row + r < tokens, y + x_at + r * 1024,
                e4m3x4_from_f32(__uint_as_float(x_v[r * 4] << 16) * inverse,
                    __uint_as_float(x_v[r * 4] & 0xffff0000u) * inverse,
                    __uint_as_float(x_v[r * 4 + 1] << 16) * inverse,
                    __uint_as_float(x_v[r * 4 + 1] & 0xffff0000u) * inverse),
                e4m3x4_from_f32(__uint_as_float(x_v[r * 4 + 2] << 16) * inverse,
                    __uint_as_float(x_v[r * 4 + 2] & 0xffff0000u) * inverse,
                    __uint_as_float(x_v[r * 4 + 3] << 16) * inverse,
                    __uint_as_float(x_v[r * 4 + 3] & 0xffff0000u) * inverse));
    }  // r
}
