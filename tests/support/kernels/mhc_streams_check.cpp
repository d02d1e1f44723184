#include <bit>

#include "kernels/mhc.hpp"
#include "tests/support/kernels/mhc_check_support.hpp"
#include "tests/support/reference/formats.hpp"

namespace tessera::test {

namespace {

using mhc::Residual;

Residual mode_of(const MhcCase& c) { return c.accumulate ? Residual::accumulate : Residual::overwrite; }

/// What the residual's gradient is added to, and the tensor that it lies in.
struct Old {
    Numbers values;
    TensorView view;
    Old(CallTensors& t, const MhcCase& c, Random& random, const Shape& extents)
        : values(c.accumulate ? normal_bf16(random, extents.count()) : Numbers{}), view(t.output(bf16, extents)) {}
    void put(const Stream& stream) const {
        if (values.empty()) return;
        const Tensor all = Tensor::empty(Device::host(), bf16, view.extents);
        for (std::int64_t i = 0; i < all.count(); ++i)
            all.as<std::uint16_t>()[i] =
                static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(values[static_cast<std::size_t>(i)]) >> 16);
        copy(stream, view, all);
    }
};

}  // namespace

std::string check_mhc_expand(const Device& device, const MhcCase& c) {
    return checked(c, [&]() -> std::string {
        const Stream stream = device.stream();
        Random random(c.seed);
        const std::int64_t m = c.streams, h = c.hidden;
        CallTensors t(stream, c.shift);
        const Numbers in = normal_bf16(random, c.tokens * h), grad = normal_bf16(random, c.tokens * m * h);
        const TensorView x = t.input(bf16, leading(c, {h}), in), g = t.input(bf16, leading(c, {m, h}), grad);
        const TensorView out = t.output(bf16, leading(c, {m, h})), dx = t.output(bf16, leading(c, {h}));
        mhc::expand_forward(stream, x, out);
        mhc::expand_backward(stream, g, dx);
        stream.synchronize();
        const Numbers copies = t.read(out), sums = t.read(dx);
        for (std::int64_t i = 0; i < c.tokens * m * h; ++i)
            if (copies[static_cast<std::size_t>(i)] != in[static_cast<std::size_t>(i / (m * h) * h + i % h)])
                return "a copy differs from its token";
        for (std::int64_t i = 0; i < c.tokens * h; ++i) {
            float sum = 0;
            for (std::int64_t s = 0; s < m; ++s) sum += grad[static_cast<std::size_t>((i / h * m + s) * h + i % h)];
            if (sums[static_cast<std::size_t>(i)] != reference::bf16_value(reference::bf16_nearest(sum)))
                return "a gradient is not the ordered sum";
        }
        return first_of({t.changed_input(), same("out", copies, numbers_of(stream, mhc::expand_forward(stream, x, m))),
                         same("dx", sums, numbers_of(stream, mhc::expand_backward(stream, g)))});
    });
}

std::string check_mhc_apply_mix(const Device& device, const MhcCase& c) {
    return checked(c, [&]() -> std::string {
        const Stream stream = device.stream();
        Random random(c.seed);
        const std::int64_t m = c.streams, h = c.hidden, rows = c.tokens * m;
        CallTensors t(stream, c.shift);
        const Numbers r = normal_bf16(random, rows * h), w = normal_numbers(random, rows),
                      g = normal_bf16(random, c.tokens * h);
        const TensorView residual = t.input(bf16, leading(c, {m, h}), r), mix = t.input(f32, leading(c, {m, 1}), w),
                         grad = t.input(bf16, leading(c, {h}), g);
        const TensorView out = t.output(bf16, leading(c, {h}));
        const mhc::ApplyMixGradients<TensorView> to{t.output(bf16, leading(c, {m, h})), t.output(f32, leading(c, {m}))};
        const Old old(t, c, random, leading(c, {m, h}));
        old.put(stream);
        mhc::apply_mix_forward(stream, residual, mix, out);
        mhc::apply_mix_backward(stream, residual, mix, grad, {old.view, to.mix}, mode_of(c));
        mhc::apply_mix_backward(stream, residual, mix, grad, to);
        stream.synchronize();
        const auto e = extents_of(c);
        const auto exact = mhc_reference::apply_gradients(e, r, w, g, old.values);
        const auto returned = mhc::apply_mix_backward(stream, residual, mix, grad);
        return first_of({mhc_reference::difference("out", t.read(out), mhc_reference::apply(e, r, w), true),
                         mhc_reference::difference("grad_residual", t.read(old.view), exact.residual, true),
                         mhc_reference::difference("grad_mix", t.read(to.mix), exact.mix), t.changed_input(),
                         same("out", t.read(out), numbers_of(stream, mhc::apply_mix_forward(stream, residual, mix))),
                         same("grad_residual", t.read(to.residual), numbers_of(stream, returned.residual)),
                         same("grad_mix", t.read(to.mix), numbers_of(stream, returned.mix))});
    });
}

std::string check_mhc_post(const Device& device, const MhcCase& c) {
    return checked(c, [&]() -> std::string {
        const Stream stream = device.stream();
        Random random(c.seed);
        const std::int64_t n = c.tokens, m = c.streams, h = c.hidden;
        CallTensors t(stream, c.shift);
        const mhc_reference::Post values{normal_bf16(random, n * h), normal_bf16(random, n * m * h),
                                         normal_numbers(random, n * m), normal_numbers(random, n * m * m)};
        const Numbers g = normal_bf16(random, n * m * h);
        const mhc::PostInputs in{
            t.input(bf16, leading(c, {h}), values.y), t.input(bf16, leading(c, {m, h}), values.residual),
            t.input(f32, leading(c, {m, 1}), values.post), t.input(f32, leading(c, {m, m}), values.comb)};
        const TensorView grad = t.input(bf16, leading(c, {m, h}), g), out = t.output(bf16, leading(c, {m, h}));
        const mhc::PostGradients<TensorView> to{t.output(bf16, leading(c, {h})), t.output(bf16, leading(c, {m, h})),
                                                t.output(f32, leading(c, {m})), t.output(f32, leading(c, {m, m}))};
        const Old old(t, c, random, leading(c, {m, h}));
        old.put(stream);
        mhc::post_forward(stream, in, out);
        mhc::post_backward(stream, in, grad, {to.y, old.view, to.post, to.comb}, mode_of(c));
        mhc::post_backward(stream, in, grad, to);
        stream.synchronize();
        const auto e = extents_of(c);
        const auto exact = mhc_reference::post_gradients(e, values, g, old.values);
        const auto returned = mhc::post_backward(stream, in, grad);
        return first_of({mhc_reference::difference("out", t.read(out), mhc_reference::post(e, values), true),
                         mhc_reference::difference("grad_y", t.read(to.y), exact.y, true),
                         mhc_reference::difference("grad_residual", t.read(old.view), exact.residual, true),
                         mhc_reference::difference("grad_post", t.read(to.post), exact.post),
                         mhc_reference::difference("grad_comb", t.read(to.comb), exact.comb), t.changed_input(),
                         same("out", t.read(out), numbers_of(stream, mhc::post_forward(stream, in))),
                         same("grad_y", t.read(to.y), numbers_of(stream, returned.y)),
                         same("grad_residual", t.read(to.residual), numbers_of(stream, returned.residual)),
                         same("grad_post", t.read(to.post), numbers_of(stream, returned.post)),
                         same("grad_comb", t.read(to.comb), numbers_of(stream, returned.comb))});
    });
}

}  // namespace tessera::test
