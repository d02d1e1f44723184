#pragma once

#include <cstdint>
#include <vector>

// The Engram gate and its gradients in double precision, from the specification, for tests and `tessera verify`. Shares
// nothing with the library.

namespace tessera::reference {

/// Exact values, and by how much FP32 evaluations of any order may be off: 2⁻²¹ · the formula with every term replaced
/// by its magnitude. A BF16 result may be off by half a unit in its last place more.
struct Judged {
    std::vector<double> exact, limit;
    /// Whether `got` is within `times` the limit of element i, and of half a BF16 unit where `bf16`.
    bool admits(std::size_t i, double got, bool bf16 = false, double times = 1) const;
};
/// Half a unit in the last place of BF16 at x.
double half_bf16_ulp(double x);

/// tokens × heads × hidden, dense; v without heads, w without tokens.
struct EngramGate {
    std::int64_t tokens, heads, hidden;
    std::vector<double> x, k, v, w;
    float eps, clamp;
};

/// From the inputs alone. dot, gate, rstd: tokens × heads.
struct EngramForward {
    Judged output, dot, gate, rstd_x, rstd_k;
    std::vector<bool> undecided;  // tokens × heads: dot may have either sign, and so the gate either side of 1/2
};
EngramForward engram_forward(const EngramGate& in);
/// The gate from what is stored of the sums.
double engram_gate_of(double dot, double rstd_x, double rstd_k, std::int64_t hidden, float clamp);

/// What the forward left, as the backward takes it.
struct EngramSaved {
    std::vector<float> dot, gate, rstd_x, rstd_k;
};
struct EngramGradients {
    Judged x, k, v, w;            // w: of the fused weight, summed over tokens
    std::vector<bool> undecided;  // tokens × heads: at the clamp, where either side is right
};
EngramGradients engram_backward(const EngramGate& in, const std::vector<double>& grad_out, const EngramSaved& saved);

}  // namespace tessera::reference
