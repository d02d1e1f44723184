#pragma once

#include <numeric>

#include "dsl/front/kernel.hpp"
#include "kernels/mhc.hpp"

// How the channels of a token lie over a block: 8 a thread, as one vector of 16 bytes where that is possible.

namespace tessera::mhc {

class Columns {
public:
    static constexpr std::int64_t per_thread = 8;

    /// The threads that cover the channels with the least padding; of equals the first.
    explicit Columns(const StreamsForm& form) : hidden_(form.hidden), aligned_(form.aligned) {
        vector_ = aligned_ ? std::gcd(hidden_, per_thread) : 1;
        for (const int threads : {128, 256, 64, 32}) {
            const std::int64_t padded = align_up(hidden_, threads * per_thread);
            if (threads_ != 0 && padded >= align_up(hidden_, width())) continue;
            threads_ = threads;
        }
    }
    int threads() const { return threads_; }
    /// Channels of one block or step, and how many of these there are.
    std::int64_t width() const { return threads_ * per_thread; }
    std::int64_t steps() const { return ceil_div(hidden_, width()); }
    /// Whether all a thread has is one vector.
    bool whole_vectors() const { return vector_ == per_thread; }
    /// Of tensors of BF16.
    TensorOptions options() const { return {.align = aligned_ ? 16 : 2}; }

    /// Sums over what a thread has of [rows, width]: [rows, 1, lanes, 1]. Nothing crosses lanes.
    Value<f32, 4> thread_sum(const Value<f32, 2>& v) const {
        if (whole_vectors()) return reduce_sum(v.split(axis<1>, per_thread), axis<2>).unsqueeze(axis<1>);
        const auto parts = v.split(axis<1>, threads_ * vector_).split(axis<2>, vector_);
        return reduce_sum(reduce_sum(parts, axis<3>), axis<1>);
    }
    /// Zeros to add thread_sum to.
    Value<f32, 4> no_sum(std::int64_t rows) const { return full({rows, 1, threads_, 1}, Value<f32, 0>(0.0f)); }
    /// Of what was so added, over the lanes: [rows].
    static Value<f32, 1> total(const Value<f32, 4>& sums) {
        return reduce_sum(sums, axis<2>).squeeze(axis<3>).squeeze(axis<2>).squeeze(axis<1>);
    }

private:
    std::int64_t hidden_, vector_ = 1;
    bool aligned_;
    int threads_ = 0;
};

}  // namespace tessera::mhc
