#pragma once

#include <cstddef>
#include <limits>
#include <vector>

namespace tessera::host {

/// What tensor cores read of a block's shared memory until they are waited for, and what threads have written that
/// these do not see yet, in pieces of 16 bytes.
class ProductsUnderWay {
public:
    static constexpr std::size_t none = std::numeric_limits<std::size_t>::max(), piece = 16;
    static constexpr int nobody = -1;
    struct Reading {
        std::size_t byte;    // of a piece
        std::size_t access;  // index into Code::accesses
        int first_thread;    // of the four warps
    };

    /// shared_bytes: 0 if the program has no such products.
    explicit ProductsUnderWay(std::size_t shared_bytes)
        : unseen_((shared_bytes + piece - 1) / piece, nobody), readers_(unseen_.size(), none) {}

    void clear() {
        unseen_.assign(unseen_.size(), nobody);
        for (const Reading& r : readings_) readers_[r.byte / piece] = none;
        readings_.clear();
    }
    /// Written there by a thread; nobody: by the copy engine, whose data tensor cores see.
    void write(std::size_t byte, std::size_t bytes, int thread) {
        each(byte, bytes, [&](std::size_t p) { unseen_[p] = thread; });
    }
    bool unseen(std::size_t byte) const { return unseen_[byte / piece] != nobody; }
    /// Tensor cores see what these threads have written; under_way(byte): a copy has not arrived there yet.
    template <class UnderWay>
    void fence(int first_thread, int threads, UnderWay&& under_way) {
        for (std::size_t p = 0; p < unseen_.size(); ++p) {
            const bool theirs = unseen_[p] >= first_thread && unseen_[p] < first_thread + threads;
            if (theirs && !under_way(p * piece)) unseen_[p] = nobody;
        }
    }

    void start(const Reading& reading) {
        readings_.push_back(reading);
        readers_[reading.byte / piece] = reading.access;
    }
    /// The access of a product that reads there; none if there is none.
    std::size_t reader(std::size_t byte, std::size_t bytes) const {
        std::size_t found = none;
        each(byte, bytes, [&](std::size_t p) { found = readers_[p] != none ? readers_[p] : found; });
        return found;
    }
    /// done(reading) for those of warps among these threads.
    template <class Done>
    void complete(int first_thread, int threads, Done&& done) {
        const auto theirs = [&](const Reading& r) {
            return r.first_thread >= first_thread && r.first_thread < first_thread + threads;
        };
        for (const Reading& r : readings_)
            if (theirs(r)) done(r), readers_[r.byte / piece] = none;
        std::erase_if(readings_, theirs);
        for (const Reading& r : readings_) readers_[r.byte / piece] = r.access;  // others may read the same
    }

private:
    template <class Each>
    void each(std::size_t byte, std::size_t bytes, Each&& body) const {
        for (std::size_t p = byte / piece; p * piece < byte + bytes && p < unseen_.size(); ++p) body(p);
    }

    std::vector<int> unseen_;  // the thread that has written last
    std::vector<std::size_t> readers_;
    std::vector<Reading> readings_;
};

}  // namespace tessera::host
