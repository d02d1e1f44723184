#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "runtime/tensor.hpp"

// One small call of every public function, for what all of them must keep: their stream, captures, no allocations.

namespace tessera::test {

/// Inputs filled from a seed, outputs of the right extents, and the two forms of the call.
struct PreparedCall {
    std::vector<Tensor> inputs, outputs;
    std::function<void()> run;                              // into the outputs
    std::function<std::vector<Tensor>()> run_and_allocate;  // as many tensors as there are outputs

    void clear_outputs(const Stream& stream) const;
    /// The tensors' elements on the host, one after another.
    static std::vector<std::uint8_t> bytes_of(const Stream& stream, const std::vector<Tensor>& tensors);
};

/// Whether a call into given outputs may take memory of its stream for what is in between, and gives it back.
enum class Scratch : std::uint8_t { none, taken };

struct PublicCall {
    std::string name;  // holds the names of all functions that are called
    /// Its kernels are ready afterwards; nothing was launched.
    PreparedCall (*prepared)(const Stream& stream, std::uint64_t seed);
    Scratch scratch = Scratch::none;
};

const std::vector<PublicCall>& public_calls();

}  // namespace tessera::test
