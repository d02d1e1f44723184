// normalize for sm_90a: blocks of 32 threads, grid [rows]

__device__ __forceinline__ void load_mutable_16(float& a, float& b, float& c, float& d, const void* p) {
    asm volatile("ld.global.v4.b32 {%0, %1, %2, %3}, [%4];"
        : "=f"(a), "=f"(b), "=f"(c), "=f"(d)
        : "l"(p)
        : "memory");
}

__device__ __forceinline__ void store_16(void* p, float a, float b, float c, float d) {
    asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};"
        :
        : "l"(p), "f"(a), "f"(b), "f"(c), "f"(d)
        : "memory");
}

extern "C" __global__ void __launch_bounds__(32) normalize(
    float* x,         // f32 [rows, 4096] strides [pitch, 1], 16-byte aligned
    long long rows,   // i64
    long long pitch,  // i64, a multiple of 4
    float eps         // f32
) {
    const long long block = blockIdx.x;
    const int thread = threadIdx.x;
    __builtin_assume(thread >= 0);
    float total[1];  // sum of squares
    total[0] = 0.0f;
    #pragma unroll 1
    for (long long step = 0; step < 4096; step += 128) {
        float v[4];
        load_mutable_16(v[0], v[1], v[2], v[3], x + block * pitch + step + thread * 4);
        #pragma unroll
        for (int i = 0; i < 4; ++i) {
            total[0] = total[0] + v[i] * v[i];
        }  // i
    }  // step
    total[0] = total[0] + __shfl_xor_sync(0xffffffffu, total[0], 16);
    total[0] = total[0] + __shfl_xor_sync(0xffffffffu, total[0], 8);
    total[0] = total[0] + __shfl_xor_sync(0xffffffffu, total[0], 4);
    total[0] = total[0] + __shfl_xor_sync(0xffffffffu, total[0], 2);
    total[0] = total[0] + __shfl_xor_sync(0xffffffffu, total[0], 1);
    const float scale = rsqrtf(total[0] / 4096.0f + eps);
    #pragma unroll 1
    for (long long step = 0; step < 4096; step += 128) {
        float v_2[4];
        load_mutable_16(v_2[0], v_2[1], v_2[2], v_2[3], x + block * pitch + step + thread * 4);
        store_16(x + block * pitch + step + thread * 4, v_2[0] * scale, v_2[1] * scale, v_2[2] * scale, v_2[3] * scale);
    }  // step
}
