#include <fmt/format.h>

#include "dsl/emit/helpers.hpp"

namespace tessera::emit {

namespace {

/// Past the registers, to shared memory; zeros where nothing is to be read. 16 bytes skip the L1 cache.
Helper copy_async(int bytes) {
    return {fmt::format("copy_{}_async", bytes),
            fmt::format(R"(__device__ __forceinline__ void copy_{0}_async(bool in, void* to, const void* from) {{
    asm volatile("cp.async.{1}.shared.global [%0], [%1], {0}, %2;"
        :
        : "r"((unsigned)__cvta_generic_to_shared(to)), "l"(from), "r"(in ? {0} : 0)
        : "memory");
}}
)",
                        bytes, bytes == 16 ? "cg" : "ca"),
            {}};
}

Helper wait_copies() {
    return {"wait_copies",
            R"(__device__ __forceinline__ void wait_copies() { asm volatile("cp.async.wait_all;" ::: "memory"); }
)",
            {}};
}

/// Groups of a thread's copies: cp.async.wait_group takes its number as an immediate.
Helper commit_copies() {
    return {"commit_copies",
            R"(__device__ __forceinline__ void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
)",
            {}};
}

Helper wait_copies_but() {
    return {"wait_copies_but",
            R"(template <int pending>
__device__ __forceinline__ void wait_copies_but() {
    asm volatile("cp.async.wait_group %0;" : : "n"(pending) : "memory");
}
)",
            {}};
}

/// By one thread; the fence makes them known to the copy engine.
Helper init_mbarriers() {
    return {"init_mbarriers",
            R"(__device__ __forceinline__ void init_mbarriers(unsigned long long* mbarriers, int count, int arrivals) {
    for (int i = 0; i < count; ++i)
        asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;"
            :
            : "r"((unsigned)__cvta_generic_to_shared(mbarriers + i)), "r"(arrivals)
            : "memory");
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
)",
            {}};
}

/// The phase cannot end before the arrival of arrive_mbarrier, so bytes may be expected one copy at a time.
Helper copy_bulk() {
    return {
        "copy_bulk",
        R"(__device__ __forceinline__ void copy_bulk(unsigned long long* mbarrier, void* to, const void* from, int bytes) {
    const unsigned counter = (unsigned)__cvta_generic_to_shared(mbarrier);
    asm volatile("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], %1;" : : "r"(counter), "r"(bytes) : "memory");
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
        :
        : "r"((unsigned)__cvta_generic_to_shared(to)), "l"(from), "r"(bytes), "r"(counter)
        : "memory");
}
)",
        {}};
}

/// What a launch tells the copy engine about a tensor.
Helper tensor_map() {
    return {"TensorMap",
            R"(struct __align__(64) TensorMap { unsigned long long words[16]; };
)",
            {}};
}

Helper fetch_map() {
    return {"fetch_map",
            R"(__device__ __forceinline__ void fetch_map(const TensorMap& map) {
    asm volatile("prefetch.tensormap [%0];" : : "l"(&map) : "memory");
}
)",
            {"TensorMap"}};
}

/// The coordinates of the box' first element as the tensor's axes come; the instruction takes the last axis first. The
/// bytes are those of the whole box: what is outside counts, too.
Helper copy_box(int axes) {
    std::string parameters, list, operands;
    for (int i = 0; i < axes; ++i) {
        parameters += fmt::format(", int c{}", i);
        list += fmt::format("{}%{}", i > 0 ? ", " : "", 3 + axes - 1 - i);
        operands += fmt::format(", \"r\"(c{})", i);
    }
    return {fmt::format("copy_box_{}d", axes),
            fmt::format(R"(__device__ __forceinline__ void copy_box_{0}d(
    unsigned long long* mbarrier, void* to, const TensorMap& map, int bytes{1}
) {{
    const unsigned counter = (unsigned)__cvta_generic_to_shared(mbarrier);
    asm volatile("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], %1;" : : "r"(counter), "r"(bytes) : "memory");
    asm volatile("cp.async.bulk.tensor.{0}d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {{{2}}}], [%2];"
        :
        : "r"((unsigned)__cvta_generic_to_shared(to)), "l"(&map), "r"(counter){3}
        : "memory");
}}
)",
                        axes, parameters, list, operands),
            {"TensorMap"}};
}

/// The first warp starts all copies of a phase; its first lane arrives when all lanes have.
Helper arrive_mbarrier() {
    return {"arrive_mbarrier",
            R"(__device__ __forceinline__ void arrive_mbarrier(unsigned long long* mbarrier) {
    if (threadIdx.x >= 32) return;
    __syncwarp();
    if (threadIdx.x == 0)
        asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];"
            :
            : "r"((unsigned)__cvta_generic_to_shared(mbarrier))
            : "memory");
}
)",
            {}};
}

Helper wait_mbarrier() {
    return {"wait_mbarrier",
            R"(__device__ __forceinline__ void wait_mbarrier(unsigned long long* mbarrier, int parity) {
    asm volatile("{\n"
        ".reg .pred complete;\n"
        "again:\n"
        "mbarrier.try_wait.parity.shared::cta.b64 complete, [%0], %1;\n"
        "@!complete bra again;\n"
        "}"
        :
        : "r"((unsigned)__cvta_generic_to_shared(mbarrier)), "r"(parity)
        : "memory");
}
)",
            {}};
}

}  // namespace

std::vector<Helper> copy_helpers() {
    return {copy_async(4),    copy_async(8), copy_async(16), wait_copies(),     commit_copies(), wait_copies_but(),
            init_mbarriers(), copy_bulk(),   tensor_map(),   fetch_map(),       copy_box(1),     copy_box(2),
            copy_box(3),      copy_box(4),   copy_box(5),    arrive_mbarrier(), wait_mbarrier()};
}

}  // namespace tessera::emit
