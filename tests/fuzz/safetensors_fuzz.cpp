#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <sys/mman.h>
#include <unistd.h>

#include "dsl/base/error.hpp"
#include "runtime/safetensors_header.hpp"

// The reader of safetensors files on any bytes: a file is refused by one sentence that begins with its path and names a
// cure, or all of it can be read, lies gapless, and its header written again reads as the same.

namespace {

using namespace tessera;

void require(bool holds) {
    if (!holds) std::abort();
}

bool same(const StoredTensor& a, const StoredTensor& b) {
    return a.name == b.name && a.type == b.type && a.shape == b.shape && a.begin == b.begin && a.end == b.end;
}

void read_completely(const SafetensorsFile& file, std::uint64_t most_bytes) {
    std::uint64_t end = 0;
    for (const StoredTensor& t : file.tensors()) {
        require(t.begin == end && t.end >= t.begin && t.end <= most_bytes);
        require(file.read(t).size() == t.bytes());
        require(file.find(t.name) != nullptr);
        end = t.end;
    }
    const std::string text = safetensors::header_text(file.tensors(), file.metadata());
    const safetensors::Header again = safetensors::parse_header("again", text, end);
    require(again.metadata == file.metadata() && again.tensors.size() == file.tensors().size());
    for (std::size_t i = 0; i < again.tensors.size(); ++i) require(same(again.tensors[i], file.tensors()[i]));
}

/// A file in memory, of one process. It is one for all inputs: making and closing one an input costs more than reading
/// it, and a hundred times more on a busy machine.
class MemoryFile {
public:
    MemoryFile() : descriptor_(::memfd_create("fuzz", MFD_CLOEXEC)) { require(descriptor_ >= 0); }
    ~MemoryFile() { ::close(descriptor_); }
    MemoryFile(const MemoryFile&) = delete;
    MemoryFile& operator=(const MemoryFile&) = delete;

    void hold(const std::uint8_t* data, std::size_t size) const {
        require(::pwrite(descriptor_, data, size, 0) == static_cast<ssize_t>(size));
        require(::ftruncate(descriptor_, static_cast<off_t>(size)) == 0);
    }
    std::string path() const { return "/proc/self/fd/" + std::to_string(descriptor_); }

private:
    int descriptor_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    static const MemoryFile bytes;
    bytes.hold(data, size);
    try {
        read_completely(SafetensorsFile::open(bytes.path()), size);
    } catch (const UsageError& error) {
        const std::string what = error.what();
        require(what.starts_with(bytes.path() + ": ") && what.find("; ") != std::string::npos);
    }
    return 0;
}
