#pragma once

#include <cstdint>

#include "runtime/tensor.hpp"

// DLPack 1.x, declared here: the struct that a capsule named "dltensor_versioned" holds. The layout is the standard's,
// so a pointer from another library's header may be reinterpret_cast.

namespace tessera::dlpack {

struct Version {
    std::uint32_t major = 1;
    std::uint32_t minor = 1;
};

enum DeviceType : std::int32_t { cpu = 1, cuda = 2, cuda_host = 3, cuda_managed = 13 };

struct DeviceId {
    std::int32_t type;  // a DeviceType
    std::int32_t index;
};

enum TypeCode : std::uint8_t {
    signed_integer = 0,
    unsigned_integer = 1,
    floating = 2,
    bfloat = 4,
    boolean_code = 6,
    float8_e4m3fn = 10,
    float8_e5m2 = 12,
    float8_e8m0fnu = 14,
    float4_e2m1fn = 17,
};

struct DataType {
    std::uint8_t code;  // a TypeCode
    std::uint8_t bits;
    std::uint16_t lanes;
};

struct DenseTensor {
    void* data;
    DeviceId device;
    std::int32_t rank;
    DataType type;
    std::int64_t* shape;
    std::int64_t* strides;  // in elements; null: dense
    std::uint64_t byte_offset;
};

inline constexpr std::uint64_t flag_read_only = 1;
inline constexpr std::uint64_t flag_subbyte_padded = 4;

struct ManagedTensorVersioned {
    Version version;
    void* context;
    void (*deleter)(ManagedTensorVersioned*);
    std::uint64_t flags;
    DenseTensor tensor;
};
static_assert(sizeof(DenseTensor) == 48 && sizeof(ManagedTensorVersioned) == 80);

}  // namespace tessera::dlpack

namespace tessera {

/// Hands out the tensor without a copy. The receiver calls `deleter` once; until then the memory lives. The receiver's
/// stream must wait for the tensor's. Errors: UsageError for tf32 and e5m6, for which DLPack has no type.
dlpack::ManagedTensorVersioned* to_dlpack(const Tensor& tensor);

/// Takes over a tensor without a copy; its deleter is called with the last copy of the result. Two-lane e2m1 (as
/// PyTorch hands it out) becomes twice as many elements along the last axis. Errors: UsageError for another major
/// version, an unknown type or device, or more than 8 axes; then the capsule stays the caller's.
Tensor from_dlpack(dlpack::ManagedTensorVersioned* managed);

}  // namespace tessera
