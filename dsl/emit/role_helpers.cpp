#include "dsl/emit/helpers.hpp"

namespace tessera::emit {

std::vector<Helper> role_helpers() {
    return {
        // One value for the warp, and the compiler knows it.
        {"warp_of_block",
         R"(__device__ __forceinline__ int warp_of_block() { return __shfl_sync(0xffffffffu, (int)(threadIdx.x / 32), 0); }
)",
         {}},
        {"fewer_registers",
         R"(template <int registers>
__device__ __forceinline__ void fewer_registers() {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" : : "n"(registers));
}
)",
         {}},
        {"more_registers",
         R"(template <int registers>
__device__ __forceinline__ void more_registers() {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" : : "n"(registers));
}
)",
         {}},
        {"role_barrier",
         R"(template <int name, int threads>
__device__ __forceinline__ void role_barrier() {
    asm volatile("bar.sync %0, %1;" : : "n"(name), "n"(threads) : "memory");
}
)",
         {}},
        {"arrive_by_warps",
         R"(__device__ __forceinline__ void arrive_by_warps(unsigned long long* mbarrier) {
    __syncwarp();
    if (threadIdx.x % 32 == 0)
        asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];"
            :
            : "r"((unsigned)__cvta_generic_to_shared(mbarrier))
            : "memory");
}
)",
         {}},
        // arrive_mbarrier for a role whose first thread is `first`.
        {"arrive_mbarrier_from",
         R"(__device__ __forceinline__ void arrive_mbarrier_from(unsigned long long* mbarrier, unsigned first) {
    if (threadIdx.x - first >= 32) return;
    __syncwarp();
    if (threadIdx.x == first)
        asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];"
            :
            : "r"((unsigned)__cvta_generic_to_shared(mbarrier))
            : "memory");
}
)",
         {}},
    };
}

}  // namespace tessera::emit
