#pragma once

#include <cstddef>
#include <cstdint>

// The part of CUPTI's activity API that the bench calls, declared here as the driver's is, so that neither the build
// nor a start needs it.

namespace tessera::bench::cupti {

using Result = int;

inline constexpr Result success = 0;
inline constexpr Result no_more_records = 12;  // CUPTI_ERROR_MAX_LIMIT_REACHED

// CUpti_ActivityKind. Concurrent kernels are kernels that tracing does not make wait for each other.
inline constexpr std::uint32_t kind_copy = 1, kind_fill = 2, kind_kernel = 10;
inline constexpr std::uint32_t flush_forced = 1;

/// How the records of kernels (CUpti_ActivityKernel6 … 10), copies (CUpti_ActivityMemcpy5, 6) and fills
/// (CUpti_ActivityMemset4) all begin; what follows differs, and its length is CUPTI's matter.
struct Record {
    std::uint32_t kind;
    char of_kind[12];
    std::uint64_t begin, end;  // nanoseconds of CUPTI's clock
};
static_assert(offsetof(Record, begin) == 16 && offsetof(Record, end) == 24);

/// True for versions whose records are known to begin so: API 19 to 28 (CUDA 12), then written as the CUDA version,
/// 130000 up to but without 140000.
constexpr bool reads_records_of(std::uint32_t version) {
    return (version >= 19 && version <= 28) || (version >= 130000 && version < 140000);
}

using BufferRequested = void (*)(std::uint8_t** buffer, std::size_t* bytes, std::size_t* most_records);
using BufferCompleted = void (*)(void* context, std::uint32_t stream, std::uint8_t* buffer, std::size_t bytes,
                                 std::size_t valid_bytes);

// name in the table, symbol in the library, signature of what returns a Result
#define TESSERA_CUPTI_ENTRIES(ENTRY)                                                                \
    ENTRY(version, "cuptiGetVersion", (std::uint32_t*))                                             \
    ENTRY(result_text, "cuptiGetResultString", (Result, const char**))                              \
    ENTRY(timestamp, "cuptiGetTimestamp", (std::uint64_t*))                                         \
    ENTRY(register_callbacks, "cuptiActivityRegisterCallbacks", (BufferRequested, BufferCompleted)) \
    ENTRY(enable, "cuptiActivityEnable", (std::uint32_t))                                           \
    ENTRY(disable, "cuptiActivityDisable", (std::uint32_t))                                         \
    ENTRY(flush_all, "cuptiActivityFlushAll", (std::uint32_t))                                      \
    ENTRY(next_record, "cuptiActivityGetNextRecord", (std::uint8_t*, std::size_t, void**))          \
    ENTRY(dropped_records, "cuptiActivityGetNumDroppedRecords", (void*, std::uint32_t, std::size_t*))

struct Api {
#define TESSERA_ENTRY(name, symbol, signature) Result(*name) signature = nullptr;
    TESSERA_CUPTI_ENTRIES(TESSERA_ENTRY)
#undef TESSERA_ENTRY
};

}  // namespace tessera::bench::cupti
