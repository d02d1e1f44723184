#pragma once

#include <cstdint>

// Into how many pieces the products of norm_fn are cut, from their shape and the device's multiprocessors.

namespace tessera::mhc {

inline constexpr std::int64_t most_splits = 64;

/// S of the forward product: parts of K that are summed apart, so that few tokens keep the whole device busy. Each part
/// has at least one block of 64.
std::int64_t norm_splits(std::int64_t tokens, std::int64_t inner, std::int64_t multiprocessors);
/// P of the backward product: parts of the tokens whose gradients of fn are summed apart.
std::int64_t norm_parts(std::int64_t tokens, std::int64_t inner, std::int64_t multiprocessors);

}  // namespace tessera::mhc
