#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace tessera::test {

struct GoldenTensor {
    std::string dtype;  // as in the file: "BF16", "F8_E4M3" …
    std::vector<std::int64_t> shape;
    std::vector<std::uint8_t> bytes;
};

/// A file of tests/golden, read by the plainest means so that it can judge the library's own reader too.
struct GoldenFile {
    std::string kernel;
    std::map<std::string, std::string> options;  // the `args`, each value as JSON text without quotes
    std::map<std::string, GoldenTensor> tensors;

    std::int64_t number(const std::string& option) const;
    std::string text(const std::string& option) const;  // "" if absent
};

/// All files of tests/golden whose kernel has this name, in order of their file names.
std::vector<GoldenFile> golden_files(const std::string& kernel);

}  // namespace tessera::test
