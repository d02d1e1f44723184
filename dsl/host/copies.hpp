#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <unordered_map>
#include <vector>

namespace tessera::host {

/// Bytes of tensors that a kernel may also write to, numbered through all of them; no bytes: none.
struct CopySource {
    std::uint64_t first = 0, bytes = 0;
};

/// The copies to a block's shared memory that no wait has covered yet. All threads start, group and await theirs at the
/// same instructions, so that one count of groups serves all.
class CopiesUnderWay {
public:
    static constexpr std::size_t none = std::numeric_limits<std::size_t>::max();
    struct Range {
        std::size_t begin, end;  // bytes
        std::size_t access;      // index into Code::accesses
        int thread;              // that started it
        std::size_t mbarrier;    // byte of the one that counts it; none: group counts
        CopySource source;
        std::uint64_t group = 0;
    };

    explicit CopiesUnderWay(std::size_t shared_bytes) : by_word_((shared_bytes + word - 1) / word, none) {}

    void start(const Range& range) {
        ranges_.push_back(range);
        ranges_.back().group = groups_;
        for (std::size_t w = range.begin / word; w * word < range.end; ++w) by_word_[w] = range.access;
        each_word(range.source, [&](std::uint64_t w) {
            Readers& readers = sources_[w];
            readers = {range.access, readers.count + 1};
        });
    }
    /// The access that started one that meets these bytes; none if there is none.
    std::size_t meets(std::size_t byte, std::size_t bytes) const {
        for (std::size_t w = byte / word; w * word < byte + bytes; ++w)
            if (by_word_[w] != none) return by_word_[w];
        return none;
    }
    /// The same for bytes that copies read.
    std::size_t reads(const CopySource& bytes) const {
        std::size_t access = none;
        if (sources_.empty()) return access;
        each_word(bytes, [&](std::uint64_t w) {
            if (const auto at = sources_.find(w); at != sources_.end()) access = at->second.access;
        });
        return access;
    }
    const Range* any() const { return ranges_.empty() ? nullptr : &ranges_.front(); }

    void commit() { ++groups_; }
    /// done(range) for what is complete once all but the last `pending` groups are; 0: all, in a group or not.
    template <class Done>
    void complete(std::uint64_t pending, Done&& done) {
        end([&](const Range& r) { return r.mbarrier == none && (pending == 0 || r.group + pending < groups_); }, done);
    }
    template <class Done>
    void complete_counted_by(std::size_t mbarrier, Done&& done) {
        end([&](const Range& r) { return r.mbarrier == mbarrier; }, done);
    }
    void clear() {
        end([](const Range&) { return true; }, [](const Range&) {});
        groups_ = 0;
    }

private:
    static constexpr std::size_t word = 4;  // every copy is of whole ones

    template <class Each>
    static void each_word(const CopySource& source, Each&& each) {
        for (std::uint64_t w = source.first / word; w * word < source.first + source.bytes; ++w) each(w);
    }

    template <class Over, class Done>
    void end(Over&& over, Done&& done) {
        std::size_t kept = 0;
        for (const Range& r : ranges_) {
            if (!over(r)) {
                ranges_[kept++] = r;
                continue;
            }
            for (std::size_t w = r.begin / word; w * word < r.end; ++w) by_word_[w] = none;
            each_word(r.source, [&](std::uint64_t w) {
                if (--sources_[w].count == 0) sources_.erase(w);
            });
            done(r);
        }
        ranges_.resize(kept);
    }

    std::vector<std::size_t> by_word_;  // the access whose copy is under way there
    struct Readers {
        std::size_t access = none;  // the latest that copies from there
        int count = 0;
    };
    std::unordered_map<std::uint64_t, Readers> sources_;  // by word
    std::vector<Range> ranges_;
    std::uint64_t groups_ = 0;
};

}  // namespace tessera::host
