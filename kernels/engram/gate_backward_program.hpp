#pragma once

#include <vector>

#include "kernels/engram/gate.hpp"

// The forms of the backward kernel, and what they share.
//
// Blocks that persist walk through the tokens two at a time: first the dot products of grad_out and v, then everything
// else. The weight's gradient gathers in shared memory, every element with one thread. grad_out is read again while it
// is still in the L2 cache: all that is touched for the last time streams past it (without that a quarter of the reads
// of memory were such repetitions).

namespace tessera::engram {

constexpr std::int64_t tokens_at_once = 2;

using Pairs = Value<f32, 2>;  // [tokens_at_once, heads]

/// The parameters as a kernel declares them.
struct BackwardTensors {
    std::int64_t heads, hidden;
    GateTensors in;
    Value<f32, 0> clamp;
    Dim blocks;
    Global<bf16, 3> go;
    Global<f32, 2> dot, gate, rstd_x, rstd_k;
    Global<bf16, 3> grad_x, grad_k;
    Global<bf16, 2> grad_v;
    Global<f32, 3> partial;

    BackwardTensors(Kernel& k, std::int64_t heads, std::int64_t hidden, bool aligned);
};

/// The rounds of a block: pairs of tokens lie side by side over the blocks, round for round, so that what all of them
/// have under way lies in few pages of memory.
struct Rounds {
    Index first, stride, count;
    Rounds(const BackwardTensors& t, const Index& block);
    /// A round's first token. The pair's second may be past them all.
    Index token(const Index& round) const { return first + round * stride; }
};

/// What the forward saved of a pair of tokens.
struct Scores {
    Pairs dot, gate, rstd_x, rstd_k;
    Scores(const BackwardTensors& t, const Index& token);
};

/// Of each token and head: D, the gradient with respect to dot at fixed rstd; dot · rstd² / H of x and of k. Tiles of
/// their own, so that no barrier stands between writing one and the next.
struct Factors {
    Shared<f32, 2> D, px, pk;
    Factors(Kernel& k, std::int64_t heads);
    /// sums: grad_out · v.
    void set(const BackwardTensors& t, const Index& token, const Scores& scores, const Pairs& sums) const;
};

/// Any number of heads and channels.
void record_any_heads(Kernel& k, std::int64_t heads, std::int64_t hidden, bool aligned);

/// Whether record_few_heads takes them: 1, 2 or 4 heads, aligned, whose channels are few enough to be written out.
bool are_few_heads(std::int64_t heads, std::int64_t hidden, bool aligned);
void record_few_heads(Kernel& k, std::int64_t heads, std::int64_t hidden);

}  // namespace tessera::engram
