#pragma once

#include <cstdint>

// Into how many pieces the products of norm_fn are cut, from their shape and the device's multiprocessors.

namespace tessera::mhc {

inline constexpr std::int64_t most_splits = 64;

/// Tokens of a block of the forward product, and what of K it takes at a time.
inline constexpr std::int64_t norm_product_rows = 128, norm_product_step = 128;

/// Columns of K of a block of the backward product, and the tokens that it takes at a time.
inline constexpr std::int64_t norm_backward_columns = 256, norm_backward_step = 16;

/// S of the forward product: parts of K that are summed apart, so that few tokens keep the whole device busy. Each part
/// has at least one step.
std::int64_t norm_splits(std::int64_t tokens, std::int64_t inner, std::int64_t multiprocessors);
/// P of the backward product: parts of the tokens whose gradients of fn are summed apart.
std::int64_t norm_parts(std::int64_t tokens, std::int64_t inner, std::int64_t multiprocessors);

}  // namespace tessera::mhc
