#pragma once

#include <cstddef>
#include <vector>

namespace tessera::host {

/// Bytes of a block's shared memory that copies under way will write.
class CopiesUnderWay {
public:
    struct Range {
        std::size_t begin, end;
        std::size_t access;  // index into Code::accesses
    };
    void start(std::size_t byte, std::size_t bytes, std::size_t access) {
        ranges_.push_back({byte, byte + bytes, access});
    }
    /// One that meets these bytes; null if there is none.
    const Range* meets(std::size_t byte, std::size_t bytes) const {
        for (const Range& r : ranges_)
            if (byte < r.end && r.begin < byte + bytes) return &r;
        return nullptr;
    }
    const Range* any() const { return ranges_.empty() ? nullptr : &ranges_.front(); }
    void clear() { ranges_.clear(); }

private:
    std::vector<Range> ranges_;
};

}  // namespace tessera::host
