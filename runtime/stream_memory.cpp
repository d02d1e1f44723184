#include "runtime/stream_memory.hpp"

#include <algorithm>
#include <bit>

namespace tessera::runtime {

std::int64_t StreamMemory::size_for(std::int64_t bytes) const {
    if (bytes > limit_ / 4) return 0;  // nor could any number of bytes be rounded up
    const std::int64_t leading = static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(bytes)));
    const std::int64_t step = std::max<std::int64_t>(leading / 8, 256);
    const std::int64_t size = (bytes + step - 1) / step * step;
    return size <= limit_ / 4 ? size : 0;
}

DriverPointer StreamMemory::take(std::int64_t size) {
    const std::lock_guard lock(mutex_);
    for (std::size_t i = count_; i-- > 0;) {
        if (waiting_[i].bytes != size) continue;
        const DriverPointer address = waiting_[i].address;
        std::copy(waiting_.begin() + static_cast<std::ptrdiff_t>(i) + 1,
                  waiting_.begin() + static_cast<std::ptrdiff_t>(count_),
                  waiting_.begin() + static_cast<std::ptrdiff_t>(i));
        --count_;
        bytes_ -= size;
        return address;
    }
    return 0;
}

bool StreamMemory::keep(const Piece& piece) {
    const std::lock_guard lock(mutex_);
    if (count_ == most_pieces || piece.bytes > limit_ - bytes_) return false;
    waiting_[count_++] = piece;
    bytes_ += piece.bytes;
    return true;
}

std::optional<Piece> StreamMemory::let_go_of_oldest() {
    const std::lock_guard lock(mutex_);
    if (count_ == 0) return std::nullopt;
    const Piece oldest = waiting_[0];
    std::copy(waiting_.begin() + 1, waiting_.begin() + static_cast<std::ptrdiff_t>(count_), waiting_.begin());
    --count_;
    bytes_ -= oldest.bytes;
    return oldest;
}

}  // namespace tessera::runtime
