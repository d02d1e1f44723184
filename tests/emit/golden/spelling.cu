// spelling for sm_100a: blocks of 128 threads, grid [1]

__device__ __forceinline__ void store_1(void* p, unsigned a) {
    asm volatile("st.global.u8 [%0], %1;"
        :
        : "l"(p), "r"(a)
        : "memory");
}

__device__ __forceinline__ void store_4(void* p, int a) {
    asm volatile("st.global.b32 [%0], %1;"
        :
        : "l"(p), "r"(a)
        : "memory");
}

__device__ __forceinline__ void store_4_if(bool in, void* p, float a) {
    asm volatile("{ .reg .pred in; setp.ne.u32 in, %2, 0; @in st.global.b32 [%0], %1; }"
        :
        : "l"(p), "f"(a), "r"((unsigned)in)
        : "memory");
}

extern "C" __global__ void __launch_bounds__(128) spelling(
    int* __restrict__ out,              // i32 [64]
    unsigned char* __restrict__ flags,  // bool [8]
    float* __restrict__ thread_2,       // f32 [8, 2] strides [4:1 by 8, 1]
    int float_2                         // i32
) {
    const int thread = threadIdx.x;
    __builtin_assume(thread >= 0);
    // two
    // lines, the first ends in a backslash \.
#line 7 "C:\\kernels\\a \"b\".cpp"
    const int value = thread - (float_2 - 3);
    const int value_2 = (value - 1) * (value + float_2 + 2);
    const int for_2 = value - -(-5);
    const unsigned _0_bits = __float_as_uint(0x1.99999ap-4f /* 0.1 */ / -3.0f);
    const bool c = (value < value_2 && value_2 < for_2) || !(0 < float_2);
    const long long wide = (value + value_2) * 1099511627776ll + for_2;
    store_4(out, c ? (int)wide : (int)((_0_bits >> 8) & 0xffu));
    store_4(out + 1, -2147483647 - 1);
    store_1(flags + 3, (unsigned)c);
    #pragma unroll
    for (int out_2 = 0; out_2 < 1; ++out_2) {
        #pragma unroll
        for (int out_3 = 0; out_3 < 1; ++out_3) {
            store_4_if(c, thread_2 + (out_2 + out_3),
                    fminf(__uint_as_float(0x7f800000u /* inf */), 0x1p-1f /* 0.5 */ - (1.0f - -0.0f)));
        }  // out_3
    }  // out_2
    #pragma unroll
    for (int out_2 = 0; out_2 < 1; ++out_2) {
        store_4(out + out_2, for_2 - out_2);
    }  // out_2
}
