#pragma once

#include <tessera/quant.hpp>

#include "tests/support/kernels/guarded.hpp"
#include "tests/support/reference/quantize.hpp"

namespace tessera::test {

Element element_of(reference::Format format);
quant::ScaleLayout layout_of(reference::Scales scales);

/// How the scales of rows × columns values lie, runs of columns `gap` words further apart than they must.
class ScaleMemory {
public:
    ScaleMemory(std::int64_t rows, std::int64_t columns, const reference::QuantizeRule& rule, std::int64_t gap);

    Element element;
    Shape extents, strides;
    std::int64_t bytes() const { return 4 * runs_ * (run_ + gap_); }
    /// The reference's words at these places, the sentinel in the gaps.
    std::vector<std::uint8_t> laid_out(const std::vector<std::uint32_t>& words) const;

private:
    std::int64_t run_, runs_, gap_;
};

/// "" if equal, else the first word that differs.
std::string compare_scales(const std::vector<std::uint8_t>& got, const std::vector<std::uint8_t>& expected);
/// "" if equal, else the first byte of the codes that differs.
std::string compare_codes(const std::vector<std::uint8_t>& got, const std::vector<std::uint8_t>& expected,
                          std::int64_t row_bytes);

/// `bytes` bytes from the beginning of a returned tensor, gaps included.
std::vector<std::uint8_t> memory_of(const Stream& stream, const TensorView& view, std::size_t bytes);

/// What a cast returned against the reference: types, extents, strides and every byte. "" if all is well.
std::string check_returned(const Stream& stream, const quant::Quantized& q, const reference::Quantized& expected,
                           std::int64_t rows, std::int64_t columns, const reference::QuantizeRule& rule);

}  // namespace tessera::test
