#include "tests/support/kernels/mhc_tensors.hpp"

#include <cstring>
#include <stdexcept>

#include "tests/support/reference/formats.hpp"

namespace tessera::test {

namespace {

std::vector<std::uint8_t> bytes_of(Element element, const Numbers& values) {
    const std::size_t width = element == bf16 ? 2 : 4;
    std::vector<std::uint8_t> bytes(values.size() * width);
    for (std::size_t i = 0; i < values.size(); ++i) {
        const std::uint16_t half = element == bf16 ? reference::bf16_nearest(values[i]) : std::uint16_t{0};
        std::memcpy(&bytes[i * width], element == bf16 ? static_cast<const void*>(&half) : &values[i], width);
    }
    return bytes;
}

Numbers numbers_in(Element element, const std::uint8_t* bytes, std::size_t count) {
    Numbers values(count);
    for (std::size_t i = 0; i < count; ++i) {
        std::uint16_t half = 0;
        if (element == bf16) {
            std::memcpy(&half, bytes + 2 * i, 2);
            values[i] = reference::bf16_value(half);
        } else {
            std::memcpy(&values[i], bytes + 4 * i, 4);
        }
    }
    return values;
}

}  // namespace

Numbers normal_numbers(Random& random, std::int64_t count, double size) {
    Numbers values;
    for (std::int64_t i = 0; i < count; ++i) {
        double sum = -6;
        for (int k = 0; k < 12; ++k) sum += random.unit();
        values.push_back(static_cast<float>(size * sum));
    }
    return values;
}

Numbers normal_bf16(Random& random, std::int64_t count, double size) {
    Numbers values = normal_numbers(random, count, size);
    for (float& v : values) v = reference::bf16_value(reference::bf16_nearest(v));
    return values;
}

TensorView CallTensors::input(Element element, const Shape& extents, const Numbers& values) {
    std::vector<std::uint8_t> bytes = bytes_of(element, values);
    Guarded memory(stream_, bytes, shift_ * (element == bf16 ? 2 : 4));
    const TensorView view = memory.view(element, extents, dense_strides(extents));
    entries_.push_back({std::move(memory), view, std::move(bytes)});
    return view;
}

TensorView CallTensors::rows(const Shape& extents, std::int64_t pitch, const Numbers& values) {
    const std::int64_t columns = extents.back(), rows = columns > 0 ? extents.count() / columns : 0;
    Numbers spread(static_cast<std::size_t>(rows * pitch), -1e30f);
    for (std::int64_t i = 0; i < rows * columns; ++i)
        spread[static_cast<std::size_t>(i / columns * pitch + i % columns)] = values[static_cast<std::size_t>(i)];
    TensorView view = input(f32, {rows, pitch}, spread);
    view.extents = extents;
    view.strides = dense_strides(extents);
    for (int i = 0; i + 1 < view.rank(); ++i) view.strides[i] = view.strides[i] / columns * pitch;
    return view;
}

TensorView CallTensors::output(Element element, const Shape& extents) {
    const std::int64_t width = element == bf16 ? 2 : 4;
    Guarded memory(stream_, extents.count() * width, shift_ * width);
    const TensorView view = memory.view(element, extents, dense_strides(extents));
    entries_.push_back({std::move(memory), view, {}});
    return view;
}

const CallTensors::Entry& CallTensors::entry(const TensorView& view) const {
    for (const Entry& e : entries_)
        if (e.view.data == view.data) return e;
    throw std::runtime_error("a tensor that is not one of this call");
}

std::vector<std::uint8_t> CallTensors::bytes(const TensorView& view) const { return entry(view).memory.read(stream_); }

Numbers CallTensors::read(const TensorView& view) const {
    const std::vector<std::uint8_t> all = bytes(view);
    return numbers_in(view.element, all.data(), all.size() / (view.element == bf16 ? 2 : 4));
}

std::string CallTensors::changed_input() const {
    for (const Entry& e : entries_)
        if (!e.contents.empty() && e.memory.read(stream_) != e.contents) return "an input has changed";
    return "";
}

Numbers numbers_of(const Stream& stream, const Tensor& t) {
    const Tensor here = t.to_host(stream);
    return numbers_in(t.element(), here.as<const std::uint8_t>(), static_cast<std::size_t>(t.count()));
}

}  // namespace tessera::test
