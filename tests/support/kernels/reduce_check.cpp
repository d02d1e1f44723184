#include <cmath>
#include <cstring>
#include <exception>
#include <fmt/core.h>
#include <tessera/moe.hpp>

#include "tests/support/inputs.hpp"
#include "tests/support/kernels/guarded.hpp"
#include "tests/support/kernels/moe_check.hpp"
#include "tests/support/kernels/reported.hpp"
#include "tests/support/kernels/scale_memory.hpp"

namespace tessera::test {
namespace {

using Bytes = std::vector<std::uint8_t>;

template <class T>
Bytes bytes_of(const std::vector<T>& numbers) {
    const auto* first = reinterpret_cast<const std::uint8_t*>(numbers.data());
    return {first, first + numbers.size() * sizeof(T)};
}

/// Both signs, zeros, tiny products that round to −0, and plain numbers.
std::vector<float> random_factors(std::int64_t count, std::uint64_t seed) {
    Random random(seed);
    std::vector<float> factors(static_cast<std::size_t>(count));
    for (float& f : factors) {
        f = static_cast<float>(random.unit() * 4 - 2);
        if (random.one_in(12)) f = random.pick({0.0f, -0.0f, 1.0f, 1e-38f, -1e-38f, 3e38f});
    }
    return factors;
}

/// Values of x; rows that no slot names are NaN throughout.
Bytes values_of(const ReduceCase& c, const reference::Mapping& map) {
    const std::int64_t size = bits_of(c.type) / 8;
    const std::int64_t span = c.positions == 0 ? 0 : (c.positions - 1) * c.pitch + c.hidden;
    Bytes values = hard_values(c.type, span, c.seed);
    std::vector<bool> named(static_cast<std::size_t>(c.positions));
    for (std::int64_t pos : map.token_topk_to_pos)
        if (pos >= 0 && pos < c.positions) named[pos] = true;
    for (std::int64_t p = 0; p < c.positions; ++p)
        if (!named[p]) std::memset(&values[p * c.pitch * size], 0xFF, c.hidden * size);
    return values;
}

bool is_nan(const std::uint8_t* at, Element type) {
    std::uint32_t bits = 0;
    std::memcpy(&bits, at, bits_of(type) / 8);
    if (type == e4m3) return (bits & 0x7F) == 0x7F;
    if (type == bf16) return (bits & 0x7FFF) > 0x7F80;
    return (bits & 0x7FFFFFFF) > 0x7F800000;
}

/// A NaN is a NaN, whatever its bits.
std::string compare(const Bytes& got, const Bytes& expected, Element type, std::int64_t hidden) {
    const std::size_t size = bits_of(type) / 8;
    for (std::size_t i = 0; i < expected.size(); i += size) {
        if (std::memcmp(&got[i], &expected[i], size) == 0) continue;
        if (is_nan(&got[i], type) && is_nan(&expected[i], type)) continue;
        return fmt::format("element [{}, {}] is wrong", i / size / hidden, i / size % hidden);
    }
    return "";
}

std::string check(const Device& device, const ReduceCase& c) {
    const reference::Mapping map = c.mapping();
    const Bytes values = values_of(c, map);
    const auto weights = random_factors(c.tokens * c.topk, c.seed + 1), x_sf = random_factors(c.positions, c.seed + 2),
               sf = random_factors(1, c.seed + 3);
    const Element type = c.to_e4m3 ? e4m3 : c.type;
    const Bytes expected = reference::reduce(
        {c.type == bf16, c.hidden, c.pitch, values.data(), c.weights ? &weights : nullptr, c.x_sf ? &x_sf : nullptr,
         c.sf ? &sf : nullptr, c.to_e4m3 ? reference::Reduction::Out::e4m3 : reference::Reduction::Out::like_x},
        map);

    const Stream stream = device.stream();
    const Guarded x(stream, values, c.shift * bits_of(c.type) / 8), slots(stream, bytes_of(map.token_topk_to_pos)),
        w(stream, bytes_of(weights)), s(stream, bytes_of(x_sf)), f(stream, bytes_of(sf));
    const Guarded out(stream, static_cast<std::int64_t>(expected.size()));
    moe::ReduceOptions options;
    if (c.weights) options.topk_weights = w.view(f32, {c.tokens, c.topk}, {c.topk, 1});
    if (c.x_sf) options.x_sf = s.view(f32, {c.positions}, {1});
    options.to_e4m3 = c.to_e4m3;
    if (c.sf) options.sf = f.view(f32, {1}, {1});
    const TensorView in = x.view(c.type, {c.positions, c.hidden}, {c.pitch, 1});
    const TensorView to = slots.view(i32, {c.tokens, c.topk}, {c.topk, 1});
    const std::string said = reported_by(stream, [&] {
        moe::reduce_fused(stream, in, to, out.view(type, {c.tokens, c.hidden}, {c.hidden, 1}), options);
    });
    std::string wrong = compare_report(said, c.stray());
    if (wrong.empty()) wrong = compare(out.read(stream), expected, type, c.hidden);
    if (wrong.empty() && x.read(stream) != values) wrong = "the input has changed";
    if (!wrong.empty() || !c.stray().empty()) return wrong;

    const Tensor returned = moe::reduce_fused(stream, in, to, options);
    if (returned.element() != type || !(returned.extents() == Shape{c.tokens, c.hidden}))
        return "the returned tensor has another type or other extents";
    wrong = compare(memory_of(stream, returned, expected.size()), expected, type, c.hidden);
    return wrong.empty() ? "" : "returned: " + wrong;
}

}  // namespace

std::string check_reduce_fused(const Device& device, const ReduceCase& c) {
    try {
        const std::string wrong = check(device, c);
        if (wrong.empty()) return "";
        return fmt::format("{}{}{}{}{}: {}", c.text(), c.weights ? " weights" : "", c.x_sf ? " x_sf" : "",
                           c.to_e4m3 ? " to e4m3" : "", c.sf ? " sf" : "", wrong);
    } catch (const std::exception& error) {
        return c.text() + ": " + error.what();
    }
}

}  // namespace tessera::test
