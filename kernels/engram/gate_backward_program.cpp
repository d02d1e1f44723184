#include "kernels/engram/gate_backward_program.hpp"

namespace tessera::engram {

namespace {

int at(bool aligned, int element) { return aligned ? 16 : element; }

}  // namespace

BackwardTensors::BackwardTensors(Kernel& k, std::int64_t heads_, std::int64_t hidden_, bool aligned)
    : heads(heads_),
      hidden(hidden_),
      in(k, heads, hidden, aligned),
      clamp(k.scalar<f32>("clamp_value")),
      blocks(k.dim("blocks")),
      go(k.input<bf16>("grad_out", {in.tokens, heads, hidden}, {.align = at(aligned, 2)})),
      dot(k.input<f32>("dot", {in.tokens, heads}, {.align = 4})),
      gate(k.input<f32>("gate_score", {in.tokens, heads}, {.align = 4})),
      rstd_x(k.input<f32>("rstd_x", {in.tokens, heads}, {.align = 4})),
      rstd_k(k.input<f32>("rstd_k", {in.tokens, heads}, {.align = 4})),
      grad_x(k.output<bf16>("grad_x", {in.tokens, heads, hidden}, {.align = at(aligned, 2)})),
      grad_k(k.output<bf16>("grad_k", {in.tokens, heads, hidden}, {.align = at(aligned, 2)})),
      grad_v(k.output<bf16>("grad_v", {in.tokens, hidden}, {.align = at(aligned, 2)})),
      partial(k.inout<f32>("grad_w_partial", {blocks, heads, hidden}, {.align = at(aligned, 4)})) {}

Rounds::Rounds(const BackwardTensors& t, const Index& block)
    : first(block * tokens_at_once),
      stride(t.blocks * tokens_at_once),
      count((t.in.tokens - first + (stride - 1)) / stride) {}

Scores::Scores(const BackwardTensors& t, const Index& token)
    : dot(load(t.dot.window({tokens_at_once, t.heads}, {token, 0}))),
      gate(load(t.gate.window({tokens_at_once, t.heads}, {token, 0}))),
      rstd_x(load(t.rstd_x.window({tokens_at_once, t.heads}, {token, 0}))),
      rstd_k(load(t.rstd_k.window({tokens_at_once, t.heads}, {token, 0}))) {}

Factors::Factors(Kernel& k, std::int64_t heads)
    : D(k.shared<f32>("D", {tokens_at_once, heads})),
      px(k.shared<f32>("px", {tokens_at_once, heads})),
      pk(k.shared<f32>("pk", {tokens_at_once, heads})) {}

void Factors::set(const BackwardTensors& t, const Index& token, const Scores& scores, const Pairs& sums) const {
    const Pairs &raw = scores.dot, &g = scores.gate, &rx = scores.rstd_x, &rk = scores.rstd_k;
    const float root = inverse_root(t.hidden);
    const auto norm = root * rx * rk, s = abs(raw) * norm;
    // √(norm / |raw|), which would overflow on the way where both norms and |raw| are tiny.
    const auto slope = sums * g * (1.0f - g) * 0.5f * (norm / sqrt(s));
    const auto there = token + coordinates({tokens_at_once, t.heads}, axis<0>) < t.in.tokens;
    const auto length = static_cast<float>(t.hidden);
    store(D.whole(), select(there & ~(s < t.clamp), slope, 0.0f));
    store(px.whole(), raw * rx * rx / length);
    store(pk.whole(), raw * rk * rk / length);
}

}  // namespace tessera::engram
