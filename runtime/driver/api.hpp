#pragma once

#include <cstddef>
#include <cstdint>

// The part of the CUDA driver that Tessera calls, declared here so that neither the build nor a start needs CUDA.
// Handles are opaque pointers; a device is its ordinal; device addresses are 64-bit numbers.

namespace tessera::runtime {

using DriverResult = int;
using DriverPointer = std::uint64_t;

namespace driver_code {
inline constexpr DriverResult success = 0;
inline constexpr DriverResult out_of_memory = 2;
inline constexpr DriverResult invalid_image = 200;
inline constexpr DriverResult no_binary_for_gpu = 209;
inline constexpr DriverResult unsupported_ptx_version = 222;
inline constexpr DriverResult capture_first = 900;  // 900 … 908: not permitted, or broken, because a stream is captured
inline constexpr DriverResult capture_implicit = 906;
inline constexpr DriverResult capture_last = 908;
}  // namespace driver_code

/// CUmemPoolProps.
struct MemoryPoolProperties {
    int allocation_type = 1;  // pinned, the only one
    int handle_types = 0;
    int location_type = 1;  // device
    int location_id = 0;
    void* security = nullptr;
    std::size_t max_size = 0;
    unsigned short usage = 0;
    unsigned char reserved[54] = {};
};
static_assert(sizeof(MemoryPoolProperties) == 88);

/// CUDA_MEMCPY2D.
struct Copy2D {
    std::size_t source_x = 0, source_y = 0;
    int source_type = 4;  // unified: the address says where it is
    const void* source_host = nullptr;
    DriverPointer source = 0;
    void* source_array = nullptr;
    std::size_t source_pitch = 0;
    std::size_t destination_x = 0, destination_y = 0;
    int destination_type = 4;
    void* destination_host = nullptr;
    DriverPointer destination = 0;
    void* destination_array = nullptr;
    std::size_t destination_pitch = 0;
    std::size_t width_bytes = 0, height = 0;
};
static_assert(sizeof(Copy2D) == 128);

/// CUtensorMap: a kernel's argument that tells the copy engine about a tensor.
struct alignas(64) TensorMapWords {
    std::uint64_t words[16];
};
static_assert(sizeof(TensorMapWords) == 128);

namespace tensor_map_code {  // CUtensorMapDataType by the bytes of an element; CUtensorMapSwizzle; …L2promotion
inline constexpr int u8 = 0, u16 = 1, u32 = 2, u64 = 4;
inline constexpr int swizzle_none = 0, swizzle_32 = 1, swizzle_64 = 2, swizzle_128 = 3;
inline constexpr int promote_128 = 2, promote_256 = 3;
}  // namespace tensor_map_code

inline constexpr int launch_cooperative = 2,
                     launch_early = 6;  // CUlaunchAttributeID; early: programmatic serialization

/// CUlaunchAttribute, of which only kinds with a truth for a value are used.
struct LaunchAttribute {
    int id = launch_early;
    char padding[4] = {};
    int value = 1;
    char rest[60] = {};
};
static_assert(sizeof(LaunchAttribute) == 72);

/// CUlaunchConfig.
struct LaunchConfiguration {
    unsigned blocks_x = 1, blocks_y = 1, blocks_z = 1;
    unsigned threads_x = 1, threads_y = 1, threads_z = 1;
    unsigned shared_bytes = 0;
    void* stream = nullptr;
    LaunchAttribute* attributes = nullptr;
    unsigned attribute_count = 0;
};
static_assert(sizeof(LaunchConfiguration) == 56);

inline constexpr int attribute_multiprocessors = 16;
inline constexpr int attribute_l2_bytes = 38;
inline constexpr int attribute_capability_major = 75;
inline constexpr int attribute_capability_minor = 76;
inline constexpr int attribute_shared_bytes = 97;
inline constexpr int kernel_attribute_dynamic_shared = 8;
inline constexpr int pool_attribute_release_threshold = 4;
inline constexpr int capture_mode_relaxed = 2;

// Name in the table, symbol in the library, signature of what returns a DriverResult. What launches and tensors call
// comes first, in one line of the cache.
#define TESSERA_DRIVER_ENTRIES(ENTRY)                                                                               \
    ENTRY(launch, "cuLaunchKernel",                                                                                 \
          (void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void*, void**, void**))     \
    ENTRY(launch_with, "cuLaunchKernelEx", (const LaunchConfiguration*, void*, void**, void**))                     \
    ENTRY(context_current, "cuCtxGetCurrent", (void**))                                                             \
    ENTRY(context_push, "cuCtxPushCurrent_v2", (void*))                                                             \
    ENTRY(context_pop, "cuCtxPopCurrent_v2", (void**))                                                              \
    ENTRY(stream_is_capturing, "cuStreamIsCapturing", (void*, int*))                                                \
    ENTRY(allocate, "cuMemAllocFromPoolAsync", (DriverPointer*, std::size_t, void*, void*))                         \
    ENTRY(free, "cuMemFreeAsync", (DriverPointer, void*))                                                           \
    ENTRY(init, "cuInit", (unsigned))                                                                               \
    ENTRY(error_name, "cuGetErrorName", (DriverResult, const char**))                                               \
    ENTRY(error_text, "cuGetErrorString", (DriverResult, const char**))                                             \
    ENTRY(version, "cuDriverGetVersion", (int*))                                                                    \
    ENTRY(device_count, "cuDeviceGetCount", (int*))                                                                 \
    ENTRY(device_get, "cuDeviceGet", (int*, int))                                                                   \
    ENTRY(device_name, "cuDeviceGetName", (char*, int, int))                                                        \
    ENTRY(device_attribute, "cuDeviceGetAttribute", (int*, int, int))                                               \
    ENTRY(primary_context_retain, "cuDevicePrimaryCtxRetain", (void**, int))                                        \
    ENTRY(primary_context_state, "cuDevicePrimaryCtxGetState", (int, unsigned*, int*))                              \
    ENTRY(context_device, "cuCtxGetDevice", (int*))                                                                 \
    ENTRY(stream_create, "cuStreamCreate", (void**, unsigned))                                                      \
    ENTRY(stream_destroy, "cuStreamDestroy_v2", (void*))                                                            \
    ENTRY(stream_synchronize, "cuStreamSynchronize", (void*))                                                       \
    ENTRY(stream_context, "cuStreamGetCtx", (void*, void**))                                                        \
    ENTRY(stream_capture_info, "cuStreamGetCaptureInfo_v2",                                                         \
          (void*, int*, std::uint64_t*, void**, const void**, std::size_t*))                                        \
    ENTRY(thread_capture_mode, "cuThreadExchangeStreamCaptureMode", (int*))                                         \
    ENTRY(event_create, "cuEventCreate", (void**, unsigned))                                                        \
    ENTRY(event_record, "cuEventRecord", (void*, void*))                                                            \
    ENTRY(event_destroy, "cuEventDestroy_v2", (void*))                                                              \
    ENTRY(stream_wait_event, "cuStreamWaitEvent", (void*, void*, unsigned))                                         \
    ENTRY(pool_create, "cuMemPoolCreate", (void**, const MemoryPoolProperties*))                                    \
    ENTRY(pool_set_attribute, "cuMemPoolSetAttribute", (void*, int, void*))                                         \
    ENTRY(memory_info, "cuMemGetInfo_v2", (std::size_t*, std::size_t*))                                             \
    ENTRY(copy, "cuMemcpyAsync", (DriverPointer, DriverPointer, std::size_t, void*))                                \
    ENTRY(copy_2d, "cuMemcpy2DAsync_v2", (const Copy2D*, void*))                                                    \
    ENTRY(fill_bytes, "cuMemsetD8Async", (DriverPointer, unsigned char, std::size_t, void*))                        \
    ENTRY(library_load, "cuLibraryLoadData", (void**, const void*, int*, void**, unsigned, int*, void**, unsigned)) \
    ENTRY(library_unload, "cuLibraryUnload", (void*))                                                               \
    ENTRY(library_kernel, "cuLibraryGetKernel", (void**, void*, const char*))                                       \
    ENTRY(kernel_function, "cuKernelGetFunction", (void**, void*))                                                  \
    ENTRY(kernel_set_attribute, "cuKernelSetAttribute", (int, int, void*, int))                                     \
    ENTRY(resident_blocks, "cuOccupancyMaxActiveBlocksPerMultiprocessor", (int*, void*, int, std::size_t))          \
    ENTRY(encode_tensor_map, "cuTensorMapEncodeTiled",                                                              \
          (TensorMapWords*, int, unsigned, void*, const std::uint64_t*, const std::uint64_t*, const std::uint32_t*, \
           const std::uint32_t*, int, int, int, int))

struct alignas(64) DriverApi {
#define TESSERA_ENTRY(name, symbol, signature) DriverResult(*name) signature = nullptr;
    TESSERA_DRIVER_ENTRIES(TESSERA_ENTRY)
#undef TESSERA_ENTRY
};

}  // namespace tessera::runtime
