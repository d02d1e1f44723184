#pragma once

#include <cstdint>
#include <initializer_list>

namespace tessera {

/// Up to eight extents, held in place.
class Shape {
public:
    static constexpr int max_rank = 8;

    constexpr Shape() = default;
    constexpr Shape(std::initializer_list<std::int64_t> extents) {
        for (std::int64_t e : extents) push_back(e);
    }

    constexpr int rank() const { return rank_; }
    constexpr bool empty() const { return rank_ == 0; }
    constexpr std::int64_t operator[](int i) const { return extents_[i]; }
    constexpr std::int64_t& operator[](int i) { return extents_[i]; }
    constexpr std::int64_t back() const { return extents_[rank_ - 1]; }
    constexpr const std::int64_t* begin() const { return extents_; }
    constexpr const std::int64_t* end() const { return extents_ + rank_; }

    /// Appends an extent; past max_rank it is an error of the caller (checked by the front end).
    constexpr void push_back(std::int64_t e) {
        if (rank_ < max_rank) extents_[rank_++] = e;
    }

    /// Number of elements; 1 for rank 0.
    constexpr std::int64_t count() const {
        std::int64_t n = 1;
        for (std::int64_t e : *this) n *= e;
        return n;
    }

    friend constexpr bool operator==(const Shape& a, const Shape& b) {
        if (a.rank_ != b.rank_) return false;
        for (int i = 0; i < a.rank_; ++i)
            if (a.extents_[i] != b.extents_[i]) return false;
        return true;
    }

private:
    std::int64_t extents_[max_rank] = {};
    int rank_ = 0;
};

}  // namespace tessera
