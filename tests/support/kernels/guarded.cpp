#include "tests/support/kernels/guarded.hpp"

#include <algorithm>
#include <stdexcept>

namespace tessera::test {
namespace {

constexpr std::int64_t guard = 4096;
constexpr std::uint8_t guard_byte = 0x5C;

}  // namespace

Guarded::Guarded(const Stream& stream, const std::vector<std::uint8_t>& contents, std::int64_t shift)
    : start_(guard + shift), bytes_(static_cast<std::int64_t>(contents.size())) {
    std::vector<std::uint8_t> all(static_cast<std::size_t>(start_ + bytes_ + guard), guard_byte);
    std::copy(contents.begin(), contents.end(), all.begin() + start_);
    memory_ = Tensor::from_host(stream, u8, {static_cast<std::int64_t>(all.size())}, all.data());
}

Guarded::Guarded(const Stream& stream, std::int64_t bytes, std::int64_t shift)
    : Guarded(stream, std::vector<std::uint8_t>(static_cast<std::size_t>(bytes), sentinel), shift) {}

TensorView Guarded::view(Element element, const Shape& extents, const Shape& strides) const {
    return TensorView::of(memory_.device(), memory_.as<std::uint8_t>() + start_, element, extents, strides);
}

std::vector<std::uint8_t> Guarded::read(const Stream& stream) const {
    const Tensor here = memory_.to_host(stream);
    const auto* all = here.as<const std::uint8_t>();
    const auto is_guard = [](std::uint8_t byte) { return byte == guard_byte; };
    const std::uint8_t *start = all + start_, *end = start + bytes_;
    if (!std::all_of(all, start, is_guard) || !std::all_of(end, end + guard, is_guard))
        throw std::runtime_error("a kernel wrote outside of its output");
    return {start, end};
}

}  // namespace tessera::test
