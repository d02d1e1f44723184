#include "dsl/emit/helpers.hpp"

namespace tessera::emit {

/// The driver gives every cooperative launch a word of its own for this, 4 bytes past the address in %envreg1 (high)
/// and %envreg2 (low): launches on other streams and replays of a graph do not meet in it. The arrivals of all blocks
/// add up to 2^31, so that each sync flips the top bit once and leaves the others as they were.
Helper grid_sync_helper() {
    return {"grid_sync",
            R"(__device__ __forceinline__ void grid_sync() {
    __syncthreads();
    if (threadIdx.x == 0) {
        const unsigned arrival = blockIdx.x == 0 ? 0x80000001u - gridDim.x : 1u;
        asm volatile("{ .reg .b64 word; .reg .b32 before, now; .reg .pred waits; "
            "mov.b64 word, {%%envreg2, %%envreg1}; "
            "atom.add.release.gpu.u32 before, [word + 4], %0; "
            "again: ld.acquire.gpu.u32 now, [word + 4]; "
            "xor.b32 now, now, before; "
            "setp.ge.s32 waits, now, 0; "
            "@waits bra again; }"
            :
            : "r"(arrival)
            : "memory");
    }
    __syncthreads();
}
)",
            {}};
}

}  // namespace tessera::emit
