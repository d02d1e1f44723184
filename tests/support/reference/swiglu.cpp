#include "tests/support/reference/swiglu.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "tests/support/reference/formats.hpp"

namespace tessera::reference {
namespace {

float power_of_e(float x) { return static_cast<float>(std::exp(static_cast<long double>(x))); }

struct Factors {
    float scale, inverse;
    int exponent;  // biased, of a rounded scale
};

Factors factors_of(float amax, float least, bool round) {
    const float c = std::max(amax, least), s = c / 448.0f;
    if (!round) return {s, 448.0f / c, 0};
    if (std::isinf(s)) return {s, 0.0f, 255};
    int exponent = 0;
    while (std::ldexp(1.0f, exponent) < s) ++exponent;
    while (std::ldexp(1.0f, exponent - 1) >= s) --exponent;
    return {std::ldexp(1.0f, exponent), std::ldexp(1.0f, -exponent), exponent + 127};
}

float largest(const float* v, std::int64_t n) {
    float amax = 0;
    for (std::int64_t i = 0; i < n; ++i)
        if (std::fabs(v[i]) > amax) amax = std::fabs(v[i]);  // false for NaN
    return amax;
}

/// A row's activation; counts what is cut.
std::vector<float> activation(const SwigluForward& in, std::int64_t r, std::int64_t* clamped) {
    const std::int64_t half = in.x.columns / 2;
    std::vector<float> v(static_cast<std::size_t>(half));
    for (std::int64_t j = 0; j < half; ++j) {
        float l = in.x.at(r, j), u = in.x.at(r, half + j);
        if (in.clamp) {
            const float c = *in.clamp;
            clamped[0] += l > c;
            clamped[1] += u > c;
            clamped[2] += u < -c;
            if (l > c) l = c;
            if (u > c) u = c;
            if (u < -c) u = -c;
        }
        const float d = 1.0f + power_of_e(-l);
        const float a = l / d;
        float value = a * u;
        if (in.position) {
            const std::int32_t p = in.position[r];
            const bool known = p >= 0 && p < static_cast<std::int64_t>(in.weights.size());
            value = value * (known ? in.weights[static_cast<std::size_t>(p)] : 0.0f);
        }
        v[static_cast<std::size_t>(j)] = value;
    }
    return v;
}

std::uint32_t bits_of(float x) {
    std::uint32_t bits;
    std::memcpy(&bits, &x, sizeof bits);
    return bits;
}

}  // namespace

SwigluForwardResult swiglu_forward(const SwigluForward& in) {
    const std::int64_t half = in.x.columns / 2;
    const QuantizeRule rule{1, in.group, in.scales, in.round};
    SwigluForwardResult result;
    result.quantized.codes.resize(static_cast<std::size_t>(in.x.rows * half));
    result.quantized.scales.assign(static_cast<std::size_t>(scale_words(in.x.rows, half, rule)), 0);
    for (std::int64_t r = 0; r < in.x.rows; ++r) {
        if (in.expert && in.expert[r] < 0) continue;
        const std::vector<float> v = activation(in, r, result.clamped);
        for (std::int64_t k = 0; k * in.group < half; ++k) {
            const std::int64_t begin = k * in.group, end = std::min(begin + in.group, half);
            const Factors f = factors_of(largest(&v[begin], end - begin), in.least_amax.value_or(1e-4f), in.round);
            std::uint32_t& word = result.quantized.scales[scale_word(r, k, in.x.rows, half, rule)];
            if (in.scales == Scales::packed_ue8m0)
                word |= static_cast<std::uint32_t>(f.exponent) << (8 * (k % 4));
            else
                word = bits_of(f.scale);
            for (std::int64_t j = begin; j < end; ++j)
                result.quantized.codes[r * half + j] = e4m3_nearest(v[j] * f.inverse);
        }
    }
    return result;
}

SwigluBackwardResult swiglu_backward(const SwigluBackward& in) {
    const std::int64_t groups = in.half / in.group;
    SwigluBackwardResult out;
    out.out.resize(in.rows * in.half);
    out.x_grad.resize(in.rows * 2 * in.half);
    out.x_grad_q.resize(out.x_grad.size());
    out.x_grad_sf.resize(in.rows * 2 * groups);
    out.weight_grad.assign(in.weights.size(), 0);
    out.weight_grad_size.assign(in.weights.size(), 0);
    for (std::int64_t r = 0; r < in.rows; ++r) {
        const std::int32_t p = in.position[r];
        const float w = p >= 0 ? in.weights[p] : 0.0f;
        for (std::int64_t j = 0; j < in.half; ++j) {
            const auto decoded = [&](std::int64_t column) {
                const auto code = static_cast<float>(e4m3_value(in.x[r * 2 * in.half + column]));
                return code * in.x_sf[r * 2 * groups + column / in.group];
            };
            float x = decoded(j), y = decoded(in.half + j);
            bool cut_x = false, cut_y = false;
            if (in.clamp) {
                const float c = *in.clamp;
                cut_x = x > c;
                cut_y = y > c || y < -c;
                x = std::min(x, c);
                y = std::min(std::max(y, -c), c);
            }
            const float d = 1.0f + power_of_e(-x);
            const float a = (x / d) * y;
            const float s = 1.0f / d;
            const float g = bf16_value(in.grad[r * in.half + j]);
            const float h = (g * w) * s;
            out.out[r * in.half + j] = a * w;
            const float rest = 1.0f - s;
            out.x_grad[r * 2 * in.half + j] = cut_x ? 0.0f : (h * y) * std::fma(x, rest, 1.0f);
            out.x_grad[r * 2 * in.half + in.half + j] = cut_y ? 0.0f : h * x;
            if (p < 0 || in.row_of[p] < 0) continue;
            out.weight_grad[p] += static_cast<double>(g) * a;
            out.weight_grad_size[p] += std::fabs(static_cast<double>(g) * a);
        }
        for (std::int64_t k = 0; k < 2 * groups; ++k) {
            const std::int64_t begin = r * 2 * in.half + k * in.group;
            const Factors f = factors_of(largest(&out.x_grad[begin], in.group), 1e-4f, in.round);
            out.x_grad_sf[r * 2 * groups + k] = f.scale;
            for (std::int64_t j = begin; j < begin + in.group; ++j)
                out.x_grad_q[j] = e4m3_nearest(out.x_grad[j] * f.inverse);
        }
    }
    return out;
}

}  // namespace tessera::reference
