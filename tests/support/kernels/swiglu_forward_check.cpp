#include <cstring>
#include <exception>
#include <fmt/core.h>
#include <tessera/swiglu.hpp>

#include "tests/support/inputs.hpp"
#include "tests/support/kernels/guarded.hpp"
#include "tests/support/kernels/nearly.hpp"
#include "tests/support/kernels/swiglu_check.hpp"
#include "tests/support/random.hpp"
#include "tests/support/reference/swiglu.hpp"

namespace tessera::test {
namespace {

using Bytes = std::vector<std::uint8_t>;

template <class T>
Bytes bytes_of(const std::vector<T>& values) {
    Bytes bytes(values.size() * sizeof(T));
    if (!bytes.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
    return bytes;
}
template <class T>
std::vector<T> values_of(const Bytes& bytes) {
    std::vector<T> values(bytes.size() / sizeof(T));
    if (!values.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
    return values;
}

quant::ScaleLayout layout_of(reference::Scales scales) {
    switch (scales) {
        case reference::Scales::row_major: return quant::ScaleLayout::row_major;
        case reference::Scales::column_major: return quant::ScaleLayout::column_major;
        default: return quant::ScaleLayout::packed_ue8m0;
    }
}

/// The values of one case and what must come of them.
struct Made {
    static constexpr std::int64_t tokens = 7, top_k = 3;
    Bytes x;
    std::vector<std::int32_t> positions, experts;
    std::vector<float> weights;
    reference::SwigluForwardResult expected;
};

Made make(const SwigluForwardCase& c) {
    Made m;
    const std::int64_t span = c.rows == 0 ? 0 : (c.rows - 1) * c.pitch + 2 * c.half;
    m.x = hard_values(c.type, span, c.seed);
    Random random(c.seed + 1);
    constexpr std::int64_t slots = Made::tokens * Made::top_k;
    for (std::int64_t r = 0; r < c.rows; ++r) {
        m.positions.push_back(static_cast<std::int32_t>(random.one_in(6) ? random.pick<std::int64_t>({-1, -7, slots})
                                                                         : random.between(0, slots - 1)));
        m.experts.push_back(static_cast<std::int32_t>(random.one_in(4) ? -1 : random.between(0, 5)));
    }
    for (std::int64_t i = 0; i < slots; ++i) m.weights.push_back(static_cast<float>(random.unit() * 4 - 2));
    reference::SwigluForward in{{m.x.data(), c.type == bf16, c.rows, 2 * c.half, c.pitch},
                                c.group,
                                c.scales,
                                c.round,
                                c.clamp,
                                c.least_amax,
                                nullptr,
                                m.weights,
                                nullptr};
    if (c.weights) in.position = m.positions.data();
    if (c.experts) in.expert = m.experts.data();
    m.expected = reference::swiglu_forward(in);
    return m;
}

/// Rows that are skipped keep what was there.
template <class T>
void keep_skipped(const SwigluForwardCase& c, const Made& m, std::vector<std::uint8_t>& codes,
                  std::vector<std::uint32_t>& scales, const T& kept) {
    if (!c.experts) return;
    const reference::QuantizeRule rule{1, c.group, c.scales, c.round};
    for (std::int64_t r = 0; r < c.rows; ++r) {
        if (m.experts[static_cast<std::size_t>(r)] >= 0) continue;
        for (std::int64_t j = 0; j < c.half; ++j) kept.code(codes, r * c.half + j);
        for (std::int64_t k = 0; k * c.group < c.half; ++k)
            kept.scale(scales, reference::scale_word(r, k, c.rows, c.half, rule));
    }
}

struct Sentinel {
    void code(std::vector<std::uint8_t>& v, std::int64_t i) const { v[i] = sentinel; }
    void scale(std::vector<std::uint32_t>& v, std::int64_t i) const { v[i] = sentinel * 0x01010101u; }
};
struct Taken {  // from what came
    const std::vector<std::uint8_t>& codes;
    const std::vector<std::uint32_t>& scales;
    void code(std::vector<std::uint8_t>& v, std::int64_t i) const { v[i] = codes[i]; }
    void scale(std::vector<std::uint32_t>& v, std::int64_t i) const { v[i] = scales[i]; }
};

TensorView scales_view(const SwigluForwardCase& c, const Guarded& memory) {
    const std::int64_t groups = (c.half + c.group - 1) / c.group, run = (c.rows + 3) / 4 * 4;
    switch (c.scales) {
        case reference::Scales::row_major: return memory.view(f32, {c.rows, groups}, {groups, 1});
        case reference::Scales::column_major: return memory.view(f32, {c.rows, groups}, {1, run});
        default: return memory.view(i32, {c.rows, (groups + 3) / 4}, {1, run});
    }
}

template <class T>
std::vector<T> memory_of(const Stream& stream, const TensorView& view, std::size_t count) {
    std::vector<T> out(count);
    const auto bytes = static_cast<std::int64_t>(count * sizeof(T));
    if (count > 0)
        copy(stream, TensorView::of(Device::host(), static_cast<void*>(out.data()), u8, {bytes}),
             TensorView::raw(view.device, view.data, bytes, u8));
    return out;
}

std::string compare_count(const std::vector<std::int64_t>& got, const std::int64_t* added, std::int64_t times) {
    for (int i = 0; i < 3; ++i)
        if (got[i] != 1000 + i + times * added[i])
            return fmt::format("clamped_count[{}] is {} after {} times {}", i, got[i] - 1000 - i, times, added[i]);
    return "";
}

std::string check(const Device& device, const SwigluForwardCase& c) {
    const Made m = make(c);
    const auto& expected = m.expected.quantized;
    const Stream stream = device.stream();
    const bool exact = device.is_host();
    const std::int64_t slots = Made::tokens * Made::top_k;
    const Guarded x(stream, m.x, c.shift * (bits_of(c.type) / 8));
    const Guarded positions(stream, bytes_of(m.positions)), experts(stream, bytes_of(m.experts));
    const Guarded weights(stream, bytes_of(m.weights));
    const Guarded count(stream, bytes_of(std::vector<std::int64_t>{1000, 1001, 1002}));
    const Guarded codes(stream, static_cast<std::int64_t>(expected.codes.size()));
    const Guarded scales(stream, static_cast<std::int64_t>(expected.scales.size()) * 4);
    const swiglu::ForwardOptions options{c.group, layout_of(c.scales), c.round, c.clamp, c.least_amax};
    swiglu::ForwardMaps maps;
    if (c.weights) {
        maps.pos_to_token_topk = positions.view(i32, {c.rows}, {1});
        maps.topk_weights = weights.view(f32, {Made::tokens, slots / Made::tokens}, {Made::top_k, 1});
    }
    if (c.experts) maps.pos_to_expert = experts.view(i32, {c.rows}, {1});
    if (c.count) maps.clamped_count = count.view(i64, {3}, {1});
    const TensorView in = x.view(c.type, {c.rows, 2 * c.half}, {c.pitch, 1});

    swiglu::forward_and_per_token_cast(stream, in, codes.view(e4m3, {c.rows, c.half}, {c.half, 1}),
                                       scales_view(c, scales), options, maps);
    stream.synchronize();
    reference::Quantized given = expected;
    keep_skipped(c, m, given.codes, given.scales, Sentinel{});
    std::string wrong = compare_codes("code", codes.read(stream), given.codes, exact);
    if (wrong.empty())
        wrong =
            compare_scale_words("scale", values_of<std::uint32_t>(scales.read(stream)), given.scales, c.round, exact);
    if (wrong.empty() && c.count)
        wrong = compare_count(values_of<std::int64_t>(count.read(stream)), m.expected.clamped, 1);
    if (wrong.empty() && x.read(stream) != m.x) wrong = "the input has changed";
    if (!wrong.empty()) return wrong;

    const quant::Quantized q = swiglu::forward_and_per_token_cast(stream, in, options, maps);
    const auto q_codes = memory_of<std::uint8_t>(stream, q.data, expected.codes.size());
    const auto q_scales = memory_of<std::uint32_t>(stream, q.sf, expected.scales.size());
    reference::Quantized returned = expected;
    keep_skipped(c, m, returned.codes, returned.scales, Taken{q_codes, q_scales});
    wrong = compare_codes("returned code", q_codes, returned.codes, exact);
    if (wrong.empty()) wrong = compare_scale_words("returned scale", q_scales, returned.scales, c.round, exact);
    if (wrong.empty() && c.count)
        wrong = compare_count(values_of<std::int64_t>(count.read(stream)), m.expected.clamped, 2);
    return wrong;
}

}  // namespace

std::string check_swiglu_forward(const Device& device, const SwigluForwardCase& c) {
    try {
        const std::string wrong = check(device, c);
        return wrong.empty() ? "" : c.text() + ": " + wrong;
    } catch (const std::exception& error) {
        return c.text() + ": " + error.what();
    }
}

}  // namespace tessera::test
