#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "tests/support/reference/quantize.hpp"

// SwiGLU by the book, one value after another in FP32; e^x is rounded correctly.

namespace tessera::reference {

struct SwigluForward {
    Matrix x;  // rows of two halves
    std::int64_t group;
    Scales scales;
    bool round;
    std::optional<float> clamp, least_amax;
    const std::int32_t* position = nullptr;  // of each row's weight
    std::vector<float> weights;
    const std::int32_t* expert = nullptr;
};

struct SwigluForwardResult {
    Quantized quantized;  // rows that are skipped hold 0
    std::int64_t clamped[3] = {};
};

SwigluForwardResult swiglu_forward(const SwigluForward& in);

struct SwigluBackward {
    std::int64_t rows, half, group;
    bool round;
    std::optional<float> clamp;
    std::vector<std::uint8_t> x;         // e4m3 (rows, 2 · half)
    std::vector<float> x_sf;             // (rows, 2 · half / group)
    std::vector<std::uint16_t> grad;     // bf16 (rows, half)
    std::vector<float> weights;          // by slot
    std::vector<std::int32_t> position;  // slot of a row
    std::vector<std::int32_t> row_of;    // row of a slot
};

struct SwigluBackwardResult {
    std::vector<float> out, x_grad;  // not rounded to BF16 yet
    std::vector<std::uint8_t> x_grad_q;
    std::vector<float> x_grad_sf;
    std::vector<double> weight_grad, weight_grad_size;  // Σ G·a, and Σ |G·a|
};

SwigluBackwardResult swiglu_backward(const SwigluBackward& in);

}  // namespace tessera::reference
