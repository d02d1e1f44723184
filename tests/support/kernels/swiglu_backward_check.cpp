#include <cmath>
#include <cstring>
#include <exception>
#include <fmt/core.h>
#include <tessera/swiglu.hpp>

#include "tests/support/inputs.hpp"
#include "tests/support/kernels/guarded.hpp"
#include "tests/support/kernels/nearly.hpp"
#include "tests/support/kernels/swiglu_check.hpp"
#include "tests/support/random.hpp"
#include "tests/support/reference/formats.hpp"
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

std::vector<std::uint16_t> as_bf16(const std::vector<float>& values) {
    std::vector<std::uint16_t> out;
    for (const float v : values) out.push_back(reference::bf16_nearest(v));
    return out;
}

/// Rows of every kind: plain, zeros of both signs, large gates of both signs.
reference::SwigluBackward make(const SwigluBackwardCase& c) {
    Random random(c.seed);
    reference::SwigluBackward in{c.rows, c.half, c.group, c.round, c.clamp, {}, {}, {}, {}, {}, {}};
    in.x = random_bytes(static_cast<std::size_t>(c.rows * 2 * c.half), c.seed + 1);
    for (auto& code : in.x)
        if ((code & 0x7F) == 0x7F) code &= 0x80;  // no NaN
    for (std::int64_t i = 0; i < c.rows * 2 * (c.half / c.group); ++i)
        in.x_sf.push_back(std::ldexp(static_cast<float>(1 + random.unit()), static_cast<int>(random.between(-16, -1))));
    for (std::int64_t i = 0; i < c.rows * c.half; ++i) {
        const float g = static_cast<float>(random.unit() * 4 - 2);
        in.grad.push_back(reference::bf16_nearest(random.one_in(9) ? std::copysign(0.0f, g) : g));
    }
    const std::int64_t slots = c.tokens * c.top_k;
    for (std::int64_t i = 0; i < slots; ++i) in.weights.push_back(static_cast<float>(random.unit()));
    in.position.assign(static_cast<std::size_t>(c.rows), -1);
    in.row_of.assign(static_cast<std::size_t>(slots), -1);
    for (std::int64_t r = 0; r < c.rows && slots > 0; ++r) {  // a slot has one row at most
        const std::int64_t slot = random.between(0, slots - 1);
        if (random.one_in(5) || in.row_of[static_cast<std::size_t>(slot)] >= 0) continue;
        in.position[static_cast<std::size_t>(r)] = static_cast<std::int32_t>(slot);
        in.row_of[static_cast<std::size_t>(slot)] = static_cast<std::int32_t>(r);
    }
    return in;
}

/// What came of a call, on the host.
struct Got {
    std::vector<std::uint16_t> out, x_grad;
    std::vector<std::uint8_t> x_grad_q;
    std::vector<std::uint32_t> x_grad_sf;
    std::vector<float> weight_grad;
};

std::string compare(const Got& got, const reference::SwigluBackwardResult& expected, bool round, bool exact) {
    std::string wrong = compare_bf16("out", got.out, as_bf16(expected.out), exact);
    if (wrong.empty()) wrong = compare_bf16("x_grad", got.x_grad, as_bf16(expected.x_grad), exact);
    if (wrong.empty()) wrong = compare_codes("x_grad_q", got.x_grad_q, expected.x_grad_q, exact);
    if (wrong.empty())
        wrong = compare_scale_words("x_grad_sf", got.x_grad_sf, values_of<std::uint32_t>(bytes_of(expected.x_grad_sf)),
                                    round, exact);
    for (std::size_t i = 0; wrong.empty() && i < expected.weight_grad.size(); ++i) {
        const double b = expected.weight_grad[i];
        const double limit = 1e-4 + 1e-4 * std::fabs(b) + 1e-6 * expected.weight_grad_size[i];
        if (!(std::fabs(got.weight_grad[i] - b) <= limit))
            wrong = fmt::format("weight_grad[{}] is {}, the reference has {}", i, got.weight_grad[i], b);
    }
    return wrong;
}

template <class T>
std::vector<T> downloaded(const Stream& stream, const Tensor& t) {
    const Tensor here = t.to_host(stream);
    return {here.as<const T>(), here.as<const T>() + here.count()};
}

std::string check(const Device& device, const SwigluBackwardCase& c) {
    const reference::SwigluBackward in = make(c);
    const reference::SwigluBackwardResult expected = reference::swiglu_backward(in);
    const Stream stream = device.stream();
    const bool exact = device.is_host();
    const std::int64_t groups = 2 * c.half / c.group, values = c.rows * c.half, slots = c.tokens * c.top_k;
    const Guarded x(stream, in.x, c.shift), x_sf(stream, bytes_of(in.x_sf)),
        grad(stream, bytes_of(in.grad), 2 * c.shift);
    const Guarded weight(stream, bytes_of(in.weights)), position(stream, bytes_of(in.position));
    const Guarded row_of(stream, bytes_of(in.row_of));
    const Guarded out(stream, 2 * values), grad_q(stream, 2 * values), grad_sf(stream, c.rows * groups * 4);
    const Guarded x_grad(stream, 4 * values), weight_grad(stream, 4 * slots);
    const Shape matrix{c.rows, 2 * c.half}, dense{2 * c.half, 1};
    const Shape table{c.tokens, c.top_k}, table_dense{c.top_k, 1};
    const swiglu::BackwardInputs inputs{x.view(e4m3, matrix, dense),
                                        x_sf.view(f32, {c.rows, groups}, {groups, 1}),
                                        grad.view(bf16, {c.rows, c.half}, {c.half, 1}),
                                        weight.view(f32, table, table_dense),
                                        position.view(i32, {c.rows}, {1}),
                                        row_of.view(i32, table, table_dense)};
    const swiglu::BackwardOptions options{c.group, c.round, c.clamp};
    swiglu::backward_and_per_token_cast(
        stream, inputs,
        swiglu::BackwardOutputs<TensorView>{
            out.view(bf16, {c.rows, c.half}, {c.half, 1}), grad_q.view(e4m3, matrix, dense),
            grad_sf.view(f32, {c.rows, groups}, {groups, 1}), x_grad.view(bf16, matrix, dense),
            weight_grad.view(f32, table, table_dense)},
        options);
    stream.synchronize();
    const Got given{values_of<std::uint16_t>(out.read(stream)), values_of<std::uint16_t>(x_grad.read(stream)),
                    grad_q.read(stream), values_of<std::uint32_t>(grad_sf.read(stream)),
                    values_of<float>(weight_grad.read(stream))};
    std::string wrong = compare(given, expected, c.round, exact);
    if (wrong.empty() && (x.read(stream) != in.x || grad.read(stream) != bytes_of(in.grad)))
        wrong = "an input has changed";
    if (!wrong.empty()) return wrong;

    const auto r = swiglu::backward_and_per_token_cast(stream, inputs, options);
    wrong = compare({downloaded<std::uint16_t>(stream, r.out), downloaded<std::uint16_t>(stream, r.x_grad),
                     downloaded<std::uint8_t>(stream, r.x_grad_q), downloaded<std::uint32_t>(stream, r.x_grad_sf),
                     downloaded<float>(stream, r.weight_grad)},
                    expected, c.round, exact);
    return wrong.empty() ? "" : "returned: " + wrong;
}

}  // namespace

std::string check_swiglu_backward(const Device& device, const SwigluBackwardCase& c) {
    try {
        const std::string wrong = check(device, c);
        return wrong.empty() ? "" : c.text() + ": " + wrong;
    } catch (const std::exception& error) {
        return c.text() + ": " + error.what();
    }
}

}  // namespace tessera::test
