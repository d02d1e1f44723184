#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dsl/base/element.hpp"
#include "runtime/output_file.hpp"

// The safetensors file format: 8 bytes of header length (little endian), a JSON header, the tensors' bytes without
// gaps.

namespace tessera {

/// All 22 type names of the format. Tessera computes with some of them; the others are only copied.
enum class StoredType : std::uint8_t {
    BOOL,
    F4,
    F6_E2M3,
    F6_E3M2,
    U8,
    I8,
    F8_E5M2,
    F8_E4M3,
    F8_E8M0,
    F8_E4M3FNUZ,
    F8_E5M2FNUZ,
    I16,
    U16,
    F16,
    BF16,
    I32,
    U32,
    F32,
    C64,
    F64,
    I64,
    U64,
};

const char* name_of(StoredType type);  // "F8_E4M3" …
std::optional<StoredType> stored_type(std::string_view name);
int bits_of(StoredType type);                        // of one value; 4 and 6 for the smallest
std::optional<Element> element_of(StoredType type);  // none: a type that is only copied
StoredType stored_type_of(Element element);          // e5m6 is kept as packed U8 words, tf32 as F32

/// A tensor as the header describes it. `begin` and `end` count bytes from the end of the header.
struct StoredTensor {
    std::string name;
    StoredType type;
    std::vector<std::int64_t> shape;  // in values, also for the types of 4 and 6 bits
    std::uint64_t begin = 0, end = 0;

    std::uint64_t bytes() const { return end - begin; }
};

/// "F32 [2, 3]", for messages.
std::string describe(const StoredTensor& tensor);

using StoredMetadata = std::map<std::string, std::string>;

/// A safetensors file open for reading. The header is read and checked completely by `open`; tensors are read from the
/// file when asked for, so that a file costs no more memory than its largest tensor.
class SafetensorsFile {
public:
    /// Errors: UsageError with one sentence for each way in which a file can be malformed.
    static SafetensorsFile open(const std::string& path);
    ~SafetensorsFile();
    SafetensorsFile(SafetensorsFile&& other) noexcept;
    SafetensorsFile& operator=(SafetensorsFile&&) = delete;

    const std::string& path() const { return path_; }
    const std::vector<StoredTensor>& tensors() const { return tensors_; }  // in the order of their bytes
    const StoredTensor* find(std::string_view name) const;                 // null: there is none
    const StoredMetadata& metadata() const { return metadata_; }

    /// All bytes of a tensor. Errors: UsageError when the file cannot be read or has become shorter.
    std::vector<std::byte> read(const StoredTensor& tensor) const;

    /// A part of them: into.size() bytes from `offset` of the tensor's own bytes on.
    void read(const StoredTensor& tensor, std::uint64_t offset, std::span<std::byte> into) const;

private:
    SafetensorsFile(std::string path, int descriptor) : path_(std::move(path)), descriptor_(descriptor) {}

    std::string path_;
    int descriptor_ = -1;
    std::uint64_t data_begin_ = 0;
    std::vector<StoredTensor> tensors_;
    StoredMetadata metadata_;
};

/// A tensor that is to be written.
struct NewTensor {
    std::string name;
    StoredType type;
    std::vector<std::int64_t> shape;
};

/// Writes a safetensors file piece by piece; it appears at its path only with `finish`. The bytes are laid out by
/// descending width of the type, then by name, so that every tensor is aligned to its own width.
class SafetensorsWriter {
public:
    /// Errors: UsageError for two tensors of one name, "__metadata__", a negative or too large shape, and as
    /// OutputFile.
    SafetensorsWriter(const std::string& path, const std::vector<NewTensor>& tensors, const StoredMetadata& metadata,
                      bool overwrite);

    /// Adds to the bytes of a tensor, in order; tensors may come in any order. Errors: UsageError for an unknown name
    /// or too many bytes, and when the disk is full.
    void append(std::string_view name, std::span<const std::byte> bytes);

    /// Publishes the file. Errors: UsageError when a tensor lacks bytes.
    void finish();

private:
    struct Slot {
        StoredTensor tensor;
        std::uint64_t written = 0;
    };
    std::map<std::string, Slot, std::less<>> slots_;
    std::uint64_t data_begin_ = 0;
    OutputFile file_;
};

}  // namespace tessera
