#pragma once

#include <string>
#include <vector>

#include "runtime/safetensors.hpp"
#include "tests/files/support.hpp"

namespace tessera::tool_test {

using files_test::Folder;
using files_test::get;
using files_test::put;
using files_test::usage_error;

struct NamedBytes {
    NewTensor tensor;
    std::string bytes;
};

/// Writes a file of those tensors.
inline void write_file(const std::string& path, const std::vector<NamedBytes>& tensors,
                       const StoredMetadata& metadata = {}) {
    std::vector<NewTensor> layout;
    for (const NamedBytes& t : tensors) layout.push_back(t.tensor);
    SafetensorsWriter writer(path, layout, metadata, true);
    for (const NamedBytes& t : tensors) writer.append(t.tensor.name, files_test::bytes_of(t.bytes));
    writer.finish();
}

}  // namespace tessera::tool_test
