#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/safetensors.hpp"
#include "tools/tessera/arguments.hpp"

namespace tessera::tool {

/// A tensor of a case: its values dense in logical order, and the strides (in elements) that it has in memory.
struct CaseTensor {
    std::string name;  // without "in." or "out."
    StoredType type;
    std::vector<std::int64_t> shape;
    std::vector<std::int64_t> strides;
    std::vector<std::byte> values;

    std::size_t value_bytes() const { return static_cast<std::size_t>(bits_of(type)) / 8; }
};

/// A call of a kernel with its inputs and the outputs expected (none in a case that is only to be run).
struct Case {
    std::string file;
    std::string kernel;
    Arguments args;
    std::vector<CaseTensor> inputs;
    std::vector<CaseTensor> outputs;

    const CaseTensor* input(std::string_view name) const;
    const CaseTensor* output(std::string_view name) const;
};

/// Reads a case file (tests/golden/README.md). Errors: UsageError, for a file that is no such case too.
Case load_case(const std::string& path);

/// Strides of a dense row-major tensor.
std::vector<std::int64_t> dense_strides(const std::vector<std::int64_t>& shape);

/// Elements from the first to behind the last; 0 for an empty tensor.
/// Errors: UsageError beginning with `where` for strides that are negative or reach absurdly far.
std::int64_t span_of(const std::vector<std::int64_t>& shape, const std::vector<std::int64_t>& strides,
                     const std::string& where);

/// The values placed at their strides; what lies between them is `fill`.
std::vector<std::byte> laid_out(const CaseTensor& tensor, std::byte fill);

/// The opposite: dense values in logical order out of strided memory of elements of `value_bytes`.
std::vector<std::byte> gathered(const std::vector<std::byte>& memory, const std::vector<std::int64_t>& shape,
                                const std::vector<std::int64_t>& strides, std::size_t value_bytes);

}  // namespace tessera::tool
