#pragma once

#include <optional>
#include <vector>

#include "kernels/engram/gate.hpp"

// What the two ways of gate_backward share.

namespace tessera::engram {

/// Of each token and head: D, the gradient with respect to dot at fixed rstd; dot · rstd² / H of x and of k; the gate.
struct GateFactors {
    Value<f32, 2> D, px, pk, gate;
};

/// The arguments of the kernel as it declares them, and the tokens first … end − 1 of the block.
struct BackwardTensors {
    GateTensors in;
    Value<f32, 0> clamp;
    Dim blocks;
    Global<bf16, 3> go;
    Global<f32, 2> saved[4];  // dot, gate_score, rstd_x, rstd_k
    Global<bf16, 3> grad_x, grad_k;
    Global<bf16, 2> grad_v;
    Global<f32, 3> partial;
    Index block{0}, first{0}, end{0};

    BackwardTensors(Kernel& k, std::int64_t heads, std::int64_t hidden, bool aligned, int threads);

    /// What was saved of the tokens from `token` on: [tokens, heads] each.
    template <std::int64_t Tokens>
    std::vector<Value<f32, 2>> load_saved(const Index& token, std::int64_t heads) const {
        std::vector<Value<f32, 2>> values;
        for (const auto& score : saved) values.push_back(load(score.window({Tokens, heads}, {token, 0})));
        return values;
    }
    /// G: Σ grad_out · v over the channels, [tokens, heads]; past the block's last token D is 0.
    GateFactors factors(const Value<f32, 2>& G, const std::vector<Value<f32, 2>>& scores, const Index& token,
                        std::int64_t hidden) const;
};

/// Which way gate_backward takes. staged: as one pipeline over pieces of rows, where they fit it and shared memory
/// them; else two tokens at a time.
struct BackwardWay {
    bool staged = false;  // slower on the H200, by a seventh
    Copies engine = Copies::vectors;
    int channels = 4;  // of a thread side by side: 2 or 4
};

/// Of the staged way: pieces of threads · channels, and grad_out of a whole token in shared memory.
struct StagedPlan {
    int threads, stages;
    BackwardWay way;
    std::int64_t cols() const { return std::int64_t{threads} * way.channels; }
};
/// The one that fits these extents, with as many stages as shared memory has room for.
std::optional<StagedPlan> staged_plan(std::int64_t heads, std::int64_t hidden, const BackwardWay& way);

Program gate_backward_program(std::int64_t heads, std::int64_t hidden, bool aligned, const BackwardWay& way);
void gate_backward(const Stream& stream, const BackwardInputs& inputs, const BackwardOutputViews& outputs,
                   const BackwardOptions& options, const BackwardWay& way);

/// gate_backward by that plan. All rows begin at multiples of 16 bytes.
Program gate_backward_staged_program(std::int64_t heads, std::int64_t hidden, const StagedPlan& plan);

}  // namespace tessera::engram
