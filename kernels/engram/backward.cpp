#include "kernels/engram/backward.hpp"

namespace tessera::engram {

BackwardTensors::BackwardTensors(Kernel& k, std::int64_t heads, std::int64_t hidden, bool aligned, int threads)
    : in(k, heads, hidden, aligned),
      clamp(k.scalar<f32>("clamp_value")),
      blocks(k.dim("blocks")),
      go(k.input<bf16>("grad_out", {in.tokens, heads, hidden}, {.align = aligned ? 16 : 2})),
      saved{k.input<f32>("dot", {in.tokens, heads}, {.align = 4}),
            k.input<f32>("gate_score", {in.tokens, heads}, {.align = 4}),
            k.input<f32>("rstd_x", {in.tokens, heads}, {.align = 4}),
            k.input<f32>("rstd_k", {in.tokens, heads}, {.align = 4})},
      grad_x(k.output<bf16>("grad_x", {in.tokens, heads, hidden}, {.align = aligned ? 16 : 2})),
      grad_k(k.output<bf16>("grad_k", {in.tokens, heads, hidden}, {.align = aligned ? 16 : 2})),
      grad_v(k.output<bf16>("grad_v", {in.tokens, hidden}, {.align = aligned ? 16 : 2})),
      partial(k.inout<f32>("grad_w_partial", {blocks, heads, hidden}, {.align = aligned ? 16 : 4})) {
    k.threads(threads, 1);
    block = k.grid(blocks).x;
    first = in.tokens * block / blocks;
    end = in.tokens * (block + 1) / blocks;
}

GateFactors BackwardTensors::factors(const Value<f32, 2>& G, const std::vector<Value<f32, 2>>& scores,
                                     const Index& token, std::int64_t hidden) const {
    const auto raw = scores[0], g = scores[1], rx = scores[2], rk = scores[3];
    const auto norm = inverse_root(hidden) * rx * rk, s = abs(raw) * norm;
    // √(norm / |raw|), which would overflow on the way where both norms and |raw| are tiny.
    const auto slope = G * g * (1.0f - g) * 0.5f * (norm / sqrt(s));
    const auto there = token + coordinates({G.extent(0), G.extent(1)}, axis<0>) < end;
    const auto length = static_cast<float>(hidden);
    return {select(there & ~(s < clamp), slope, 0.0f), raw * rx * rx / length, raw * rk * rk / length, g};
}

}  // namespace tessera::engram
