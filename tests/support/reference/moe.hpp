#pragma once

#include <cstdint>
#include <vector>

// Moving rows to the expert-major buffer and summing them back, by the book.

namespace tessera::reference {

/// Rows of bytes, `pitch` bytes apart.
struct Rows {
    const std::uint8_t* data;
    std::int64_t count, bytes, pitch;
    const std::uint8_t* row(std::int64_t i) const { return data + i * pitch; }
};

/// Where every slot of every token goes (−1: nowhere), and which rows of the buffer are padding (negative).
struct Mapping {
    std::int64_t topk;
    std::vector<std::int32_t> token_topk_to_pos;  // tokens · topk
    std::vector<std::int32_t> pos_to_expert;
    std::int64_t positions() const { return static_cast<std::int64_t>(pos_to_expert.size()); }
};

/// The buffer as it was before, then: rows of padding zero, rows of slots copied. Slots outside of the buffer are
/// passed over.
std::vector<std::uint8_t> expand(const Rows& x, const Mapping& map, std::vector<std::uint8_t> before);

struct Reduction {
    bool bf16;                                        // x; else FP32
    std::int64_t hidden, pitch;                       // elements
    const std::uint8_t* x;                            // (positions, hidden)
    const std::vector<float>*weights, *x_sf, *scale;  // null: absent
    enum class Out { like_x, e4m3 } out;
};

/// Bytes of the result (tokens, hidden), dense.
std::vector<std::uint8_t> reduce(const Reduction& r, const Mapping& map);

}  // namespace tessera::reference
