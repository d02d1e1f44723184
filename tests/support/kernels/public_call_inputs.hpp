#pragma once

#include <functional>
#include <vector>

#include "kernels/quant.hpp"
#include "tests/support/kernels/public_calls.hpp"
#include "tests/support/random.hpp"

// What the rows of public_calls() are made of.

namespace tessera::test {

inline constexpr std::int64_t tokens = 128, hidden = 256, topk = 2, rows = tokens * topk;

/// Numbers around 1 of both signs; codes without those of NaN; ue8m0 scales around 1.
Tensor filled(const Stream& stream, Element element, const Shape& extents, Random& random);
Tensor positive(const Stream& stream, const Shape& extents, Random& random);
/// Numbers 0 … count − 1 in an order of the seed: which row a slot went to, or which slot a row came from.
Tensor shuffled(const Stream& stream, std::int64_t count, const Shape& extents, Random& random);
/// i64 from −1 to bound − 1.
Tensor ids(const Stream& stream, const Shape& extents, std::int64_t bound, Random& random);

using Out = const std::vector<Tensor>&;

/// The outputs come from the allocating form, with launches switched off.
PreparedCall call_of(std::vector<Tensor> inputs, std::function<std::vector<Tensor>()> allocate,
                     const std::function<std::function<void()>(Out)>& into);

/// The same for a function that works in place: it is given copies of `first`.
PreparedCall call_in_place(const Stream& stream, std::vector<Tensor> inputs, const std::vector<Tensor>& first,
                           const std::function<void(Out)>& run);

inline std::vector<Tensor> list(const quant::Quantized& q) { return {q.data, q.sf}; }

std::vector<PublicCall> quant_calls();
std::vector<PublicCall> moe_calls();
std::vector<PublicCall> swiglu_calls();
std::vector<PublicCall> engram_calls();
std::vector<PublicCall> mhc_calls();
std::vector<PublicCall> mhc_norm_calls();
std::vector<PublicCall> transpose_calls();

}  // namespace tessera::test
