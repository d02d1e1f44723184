#pragma once

#include "kernels/engram.hpp"

namespace tessera::modeling {

struct EngramGateOptions {
    float eps = 1e-20f;
    float clamp_value = 1e-6f;
    std::int64_t blocks = 0;  ///< see engram::BackwardOptions
};

/// The Engram gate as a layer: output = x + sigmoid(signed √ of ⟨RMSNorm(x), RMSNorm(k)⟩ / √H) · v, see
/// engram::gate_forward. It owns the two norm weights, bf16 (C, H), and an FP32 gradient of each, to which every
/// backward adds, so that micro-batches sum up in FP32. Between forward and backward the caller keeps the inputs as
/// they are.
class EngramGate {
public:
    /// The weights are shared, not copied; the gradients are zeros. Errors: UsageError unless both are dense bf16 (C,
    /// H).
    EngramGate(const Stream& stream, const Tensor& weight_hidden, const Tensor& weight_embed,
               const EngramGateOptions& options = {});

    /// What a backward needs of its forward.
    struct Saved {
        Shape shape;  // of hidden_states
        engram::GateInputs inputs;
        Tensor weight_fused;
        engram::GateOutputs scores;
    };
    struct Gradients {
        Tensor hidden_states, k;  // bf16, of the shape of hidden_states
        Tensor v;                 // the same without C
    };

    /// hidden_states and k: bf16 [*, C, H], v: bf16 [*, H], with the same leading axes, which must merge without a
    /// copy. Gives bf16 of the shape of hidden_states. Errors: UsageError.
    Tensor forward(const Stream& stream, const TensorView& hidden_states, const TensorView& k,
                   const TensorView& v) const;
    /// The same bits, and what backward takes.
    Tensor forward(const Stream& stream, const TensorView& hidden_states, const TensorView& k, const TensorView& v,
                   Saved& saved) const;
    /// grad_output: dense bf16 of the shape of hidden_states. Adds to both weights' gradients. Errors: UsageError.
    Gradients backward(const Stream& stream, const TensorView& grad_output, const Saved& saved);

    const Tensor& weight_hidden() const { return weight_hidden_; }
    const Tensor& weight_embed() const { return weight_embed_; }
    /// f32 (C, H).
    const Tensor& grad_hidden() const { return grad_hidden_; }
    const Tensor& grad_embed() const { return grad_embed_; }
    void zero_gradients(const Stream& stream);

private:
    engram::GateInputs merged(const TensorView& hidden_states, const TensorView& k, const TensorView& v) const;

    Tensor weight_hidden_, weight_embed_, grad_hidden_, grad_embed_;
    EngramGateOptions options_;
};

}  // namespace tessera::modeling
