#pragma once

#include <bit>

#include "dsl/front/kernel.hpp"
#include "kernels/mhc_mixes.hpp"

// What the Sinkhorn kernels share. A lane has one row of a token's matrix where the number of streams is a power of
// two, so that rows are summed in registers and columns by shuffles; else it has the whole matrix.

namespace tessera::mhc {

/// Whether sums + eps are surely at least 2⁻²⁴; see SinkhornForm.
constexpr bool bounded_sums(float eps) { return eps >= 0x1p-24f; }

class SinkhornTile {
public:
    static constexpr int threads = 64;

    explicit SinkhornTile(const SinkhornForm& form) : m_(form.streams), bounded_(form.bounded) {
        lanes_ = std::has_single_bit(static_cast<std::uint64_t>(m_)) ? m_ : 1;
    }
    /// Tokens of a block.
    std::int64_t tokens() const { return threads / lanes_; }
    /// Whether a lane has one row and no more.
    bool a_row_each() const { return lanes_ == m_; }
    /// Sums of one row step and one column step that a thread keeps.
    std::int64_t sums_per_repeat() const { return m_ + m_ / lanes_; }

    Value<f32, 3> loaded(const Global<f32, 3>& from, const Index& block) const {
        return load(from.block({tokens(), m_, m_}, {block, 0, 0}), {.per_thread = {1, m_ / lanes_, m_}});
    }
    Piece<f32, 3> piece(const Global<f32, 3>& of, const Index& block) const {
        return of.block({tokens(), m_, m_}, {block, 0, 0});
    }

    static Value<f32, 3> row_sum(const Value<f32, 3>& v) { return reduce_sum(v, axis<2>); }
    static Value<f32, 3> column_sum(const Value<f32, 3>& v) { return reduce_sum(v, axis<1>); }
    static Value<f32, 3> softmax(const Value<f32, 3>& x) {
        const auto e = exp(x - reduce_max(x, axis<2>));
        return e * divide_bounded(1.0f, row_sum(e));  // a sum of at least 1
    }
    Value<f32, 3> divide(const Value<f32, 3>& v, const Value<f32, 3>& sum) const {
        return bounded_ ? v * divide_bounded(1.0f, sum) : v / sum;
    }
    /// The whole forward pass, from logits of any number of tokens that lie as `loaded` lays them.
    Value<f32, 3> normalised(Kernel& k, const Value<f32, 3>& x, const Index& repeat, const Value<f32, 0>& eps) const {
        const auto columns = [&](const Value<f32, 3>& v) { return divide(v, column_sum(v) + eps); };
        const auto rows = [&](const Value<f32, 3>& v) { return divide(v, row_sum(v) + eps); };
        auto y = k.variable(columns(softmax(x) + eps));
        k.serial(repeat - 1, [&](Index) { y = columns(rows(y.get())); });
        return y.get();
    }
    /// Elements of one matrix that a lane has.
    std::int64_t per_lane() const { return m_ / lanes_ * m_; }

private:
    std::int64_t m_, lanes_;
    bool bounded_;
};

}  // namespace tessera::mhc
