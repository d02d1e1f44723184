// Random damage to a small valid file: always a UsageError or a file that can be read completely, never a crash.
#include <catch2/catch.hpp>
#include <random>

#include "runtime/safetensors.hpp"
#include "tests/files/support.hpp"

namespace tessera::files_test {
namespace {

const std::string& valid_file() {
    static const std::string file = with_header(
        "{\"__metadata__\":{\"kernel\":\"k\"},\"in.x\":{\"dtype\":\"BF16\",\"shape\":[2,3],\"data_offsets\":"
        "[0,12]},\"out.y\":{\"dtype\":\"F8_E4M3\",\"shape\":[2,3],\"data_offsets\":[12,18]}}",
        18);
    return file;
}

/// True if the file could be read. Every refusal must name the file and the cure.
bool survives(const std::string& path) {
    const std::string error = usage_error([&] {
        const SafetensorsFile file = SafetensorsFile::open(path);
        for (const StoredTensor& t : file.tensors()) {
            if (file.read(t).size() != t.bytes()) throw std::logic_error("a tensor was read in part");
        }
    });
    if (error.empty()) return true;
    CHECK(error.rfind(path + ": ", 0) == 0);
    CHECK(error.find("; ") != std::string::npos);
    return false;
}

TEST_CASE("10,000 random byte changes never crash the reader") {
    const Folder folder;
    const std::string path = folder.file("mutant");
    std::mt19937 random(20240607);
    int read = 0, refused = 0;
    for (int round = 0; round < 10'000; ++round) {
        std::string bytes = valid_file();
        const unsigned changes = 1 + random() % 4;
        for (unsigned i = 0; i < changes; ++i) bytes[random() % bytes.size()] = static_cast<char>(random());
        if (random() % 8 == 0) bytes.resize(random() % bytes.size());
        put(path, bytes);
        ++(survives(path) ? read : refused);
    }
    CHECK(read > 100);      // changes in the tensors and in the names are harmless
    CHECK(refused > 5000);  // most others are seen
}

TEST_CASE("every truncation is refused") {
    const Folder folder;
    const std::string path = folder.file("short");
    put(path, valid_file());
    REQUIRE(survives(path));
    for (std::size_t length = 0; length < valid_file().size(); ++length) {
        put(path, valid_file().substr(0, length));
        CHECK_FALSE(survives(path));
    }
}

}  // namespace
}  // namespace tessera::files_test
