#pragma once

#include <memory>
#include <vector>

#include "dsl/front/kernel.hpp"
#include "kernels/mhc/arguments.hpp"
#include "kernels/mhc_mixes.hpp"

// What the kernels of split_mixes and head_compute_mix share: tiles of tokens, and sums over all tokens in two steps,
// whose order depends on the number of tokens alone.

namespace tessera::mhc {

inline constexpr std::int64_t mix_rows = 16;  // tokens of a tile
inline constexpr int mix_threads = 64;

/// Blocks that sum over the tokens: each makes one row of sums.
constexpr std::int64_t mix_parts(std::int64_t tokens) {
    const std::int64_t tiles = (tokens + mix_rows - 1) / mix_rows;
    return tiles < 256 ? tiles : 256;
}

template <int R>
Value<f32, R> sigmoid(const Value<f32, R>& v) {
    return 1.0f / (1.0f + exp(-v));
}

/// Logits, scale and base of a kernel with `columns` logits a token.
struct MixParameters {
    Dim tokens;
    TensorOptions options;
    Global<f32, 2> logits;
    Global<f32, 1> scale, base;

    MixParameters(Kernel& k, std::int64_t columns, std::int64_t scales, bool aligned)
        : tokens(k.dim("tokens")),
          options{.align = aligned ? 16 : 4},
          logits(k.input<f32>(
              "logits", {tokens, columns},
              {.align = options.align, .strides = {k.dim("logits_pitch", multiple_of(aligned ? 4 : 1)), 1}})),
          scale(k.input<f32>("scale", {scales}, {.align = 4})),
          base(k.input<f32>("base", {columns}, options)) {}
};

/// Mixes that share a scale: columns [first, first + width) of the logits, as tiles of [mix_rows, width].
class Section {
public:
    Section(const MixParameters& in, std::int64_t first, std::int64_t width, std::int64_t scale)
        : in_(in), first_(first), width_(width), scale_(load(in.scale[scale])) {}

    Value<f32, 2> logits(const Index& tile, const LoadOptions& lie = {}) const {
        return load(in_.logits.window({mix_rows, width_}, {tile * mix_rows, first_}), lie);
    }
    Value<f32, 2> affine(const Value<f32, 2>& logits) const {
        return fma(logits, scale_, load(in_.base.window({width_}, {first_})).unsqueeze(axis<0>));
    }
    Value<f32, 2> affine(const Index& tile, const LoadOptions& lie = {}) const { return affine(logits(tile, lie)); }
    /// A tile of a tensor of this section's own.
    Piece<f32, 2> piece(const Global<f32, 2>& of, const Index& tile) const {
        return of.block({mix_rows, width_}, {tile, 0});
    }
    std::int64_t first() const { return first_; }
    std::int64_t width() const { return width_; }
    const Value<f32, 0>& scale() const { return scale_; }

private:
    const MixParameters& in_;
    std::int64_t first_, width_;
    Value<f32, 0> scale_;
};

/// A section's sums over the tokens of one block.
class SectionSums {
public:
    SectionSums(Kernel& k, const Section& s)
        : section_(s), base_(k.variable(zeros(s.width()))), scale_(k.variable(zeros(s.width()))) {}

    /// a: the gradient of the affine value; writes that of the logits.
    void add(const Value<f32, 2>& a, const Value<f32, 2>& logits, const Global<f32, 2>& grad_logits,
             const Index& tile) {
        store(grad_logits.window({mix_rows, section_.width()}, {tile * mix_rows, section_.first()}),
              a * section_.scale());
        base_ = base_.get() + a;
        scale_ = fma(a, logits, scale_.get());
    }
    /// Row `part` of `parts`, whose columns are the bases and then the scales.
    void store_part(const Global<f32, 2>& parts, const Index& part, std::int64_t bases, std::int64_t scale) const {
        store(parts.window({1, section_.width()}, {part, section_.first()}), reduce_sum(base_.get(), axis<0>));
        store(parts.window({1, 1}, {part, bases + scale}), reduce_sum(reduce_sum(scale_.get(), axis<1>), axis<0>));
    }

private:
    static Value<f32, 2> zeros(std::int64_t width) { return full({mix_rows, width}, Value<f32, 0>(0.0f)); }
    const Section& section_;
    Variable<f32, 2> base_, scale_;
};

/// Launches the last sum. parts: (blocks, bases + scales).
void launch_mix_sum(const Stream& stream, const TensorView& parts, const TensorView& base, const TensorView& scale,
                    const Accumulate& accumulate);

}  // namespace tessera::mhc
