#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "tests/support/kernels/guarded.hpp"
#include "tests/support/random.hpp"

namespace tessera::test {

using Numbers = std::vector<float>;

/// Numbers around a normal distribution's size: sums of uniform ones.
Numbers normal_numbers(Random& random, std::int64_t count, double size = 1);
/// The same, rounded to BF16.
Numbers normal_bf16(Random& random, std::int64_t count, double size = 1);

/// Guarded tensors of one call, in f32 or bf16. Views stay good as long as this lives.
class CallTensors {
public:
    CallTensors(const Stream& stream, std::int64_t shift) : stream_(stream), shift_(shift) {}

    /// Dense; it begins `shift` elements past a 256-byte boundary.
    TensorView input(Element element, const Shape& extents, const Numbers& values);
    /// Rows of the last axis `pitch` elements apart, with a sentinel in between.
    TensorView rows(const Shape& extents, std::int64_t pitch, const Numbers& values);
    /// Filled with a sentinel.
    TensorView output(Element element, const Shape& extents);

    /// What lies there, if nothing was written outside.
    Numbers read(const TensorView& view) const;
    std::vector<std::uint8_t> bytes(const TensorView& view) const;
    /// "" if no input has changed.
    std::string changed_input() const;

private:
    struct Entry {
        Guarded memory;
        TensorView view;
        std::vector<std::uint8_t> contents;  // empty for outputs
    };
    const Entry& entry(const TensorView& view) const;

    Stream stream_;
    std::int64_t shift_;
    std::deque<Entry> entries_;
};

/// Elements of a returned tensor.
Numbers numbers_of(const Stream& stream, const Tensor& t);

}  // namespace tessera::test
