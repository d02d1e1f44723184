#include "kernels/mhc_mixes.hpp"
#include "tests/support/kernels/mhc_check_support.hpp"

namespace tessera::test {

namespace {

/// An output that holds these values before.
TensorView preset(const Stream& stream, CallTensors& t, const Numbers& values) {
    const Shape extents{static_cast<std::int64_t>(values.size())};
    const TensorView view = t.output(f32, extents);
    copy(stream, view, TensorView::of(Device::host(), static_cast<const void*>(values.data()), f32, extents));
    return view;
}

/// What a case's parameters are, and what their gradients are added to.
struct Parameters {
    Numbers scale, base, old_scale, old_base;
    mhc::Accumulate accumulate;
    Parameters(Random& random, const MhcCase& c, std::int64_t scales, std::int64_t bases)
        : scale(normal_numbers(random, scales)),
          base(normal_numbers(random, bases)),
          old_scale(normal_numbers(random, scales)),
          old_base(normal_numbers(random, bases)),
          accumulate{c.accumulate, c.accumulate && c.seed % 2 == 0} {}
    Numbers added_scale() const { return accumulate.scale ? old_scale : Numbers{}; }
    Numbers added_base() const { return accumulate.base ? old_base : Numbers{}; }
};

std::string compare_gradients(const CallTensors& t, const mhc::MixGradients<TensorView>& got,
                              const mhc_reference::SplitGradients& exact) {
    return first_of({mhc_reference::difference("grad_logits", t.read(got.logits), exact.logits),
                     mhc_reference::difference("grad_scale", t.read(got.scale), exact.scale),
                     mhc_reference::difference("grad_base", t.read(got.base), exact.base)});
}

}  // namespace

std::string check_mhc_split_mixes(const Device& device, const MhcCase& c) {
    return checked(c, [&]() -> std::string {
        const Stream stream = device.stream();
        Random random(c.seed);
        const std::int64_t n = c.tokens, m = c.streams, columns = m * (m + 2);
        CallTensors t(stream, c.shift);
        const Parameters p(random, c, 3, columns);
        const mhc_reference::Split in{normal_numbers(random, n * columns, c.size), p.scale, p.base, 2.0,
                                      static_cast<double>(c.eps)};
        const mhc::SplitInputs inputs{t.rows(leading(c, {columns}), columns + c.gap, in.logits),
                                      t.input(f32, {3}, p.scale), t.input(f32, {columns}, p.base)};
        const mhc::SplitOptions options{2.0f, c.eps};
        const auto mixes = [&] {
            return mhc::Mixes<TensorView>{t.output(f32, leading(c, {m, 1})), t.output(f32, leading(c, {m})),
                                          t.output(f32, leading(c, {m, m}))};
        };
        const mhc::Mixes<TensorView> out = mixes();
        mhc::split_mixes_forward(stream, inputs, out, options);
        stream.synchronize();
        const auto e = extents_of(c);
        const mhc_reference::Mixes exact = mhc_reference::split(e, in);
        const Numbers post = t.read(out.post), g_pre = normal_numbers(random, n * m),
                      g_post = normal_numbers(random, n * m), g_comb = normal_numbers(random, n * m * m);
        const mhc::Mixes<TensorView> grad{t.input(f32, leading(c, {m}), g_pre),
                                          t.input(f32, leading(c, {m, 1}), g_post),
                                          t.input(f32, leading(c, {m, m}), g_comb)};
        const auto gradients = [&] {
            return mhc::MixGradients<TensorView>{t.output(f32, leading(c, {columns})), preset(stream, t, p.old_scale),
                                                 preset(stream, t, p.old_base)};
        };
        const mhc::MixGradients<TensorView> to = gradients(), again = gradients(), fresh = gradients();
        mhc::split_mixes_backward(stream, inputs, out.post, grad, to, options, p.accumulate);
        mhc::split_mixes_backward(stream, inputs, out.post, grad, again, options, p.accumulate);
        mhc::split_mixes_backward(stream, inputs, out.post, grad, fresh, options);
        stream.synchronize();
        const auto returned = mhc::split_mixes_forward(stream, inputs, options);
        const auto returned_gradients = mhc::split_mixes_backward(stream, inputs, out.post, grad, options);
        return first_of(
            {mhc_reference::difference("pre", t.read(out.pre), exact.pre),
             mhc_reference::difference("post", post, exact.post),
             mhc_reference::difference("comb", t.read(out.comb), exact.comb),
             compare_gradients(
                 t, to,
                 mhc_reference::split_gradients(e, in, post, g_pre, g_post, g_comb, p.added_scale(), p.added_base())),
             t.bytes(to.scale) == t.bytes(again.scale) && t.bytes(to.base) == t.bytes(again.base) ? ""
                                                                                                  : "two runs differ",
             t.changed_input(), same("pre", t.read(out.pre), numbers_of(stream, returned.pre)),
             same("post", post, numbers_of(stream, returned.post)),
             same("comb", t.read(out.comb), numbers_of(stream, returned.comb)),
             same("grad_logits", t.read(fresh.logits), numbers_of(stream, returned_gradients.logits)),
             same("grad_scale", t.read(fresh.scale), numbers_of(stream, returned_gradients.scale)),
             same("grad_base", t.read(fresh.base), numbers_of(stream, returned_gradients.base))});
    });
}

std::string check_mhc_head(const Device& device, const MhcCase& c) {
    return checked(c, [&]() -> std::string {
        const Stream stream = device.stream();
        Random random(c.seed);
        const std::int64_t n = c.tokens, m = c.streams;
        CallTensors t(stream, c.shift);
        const Parameters p(random, c, 1, m);
        const mhc_reference::Split in{normal_numbers(random, n * m, c.size), p.scale, p.base, 1.0,
                                      static_cast<double>(c.eps)};
        const mhc::HeadInputs inputs{t.rows(leading(c, {m}), m + c.gap, in.logits), t.input(f32, {1}, p.scale),
                                     t.input(f32, {m}, p.base)};
        const Numbers g = normal_numbers(random, n * m);
        const TensorView out = t.output(f32, leading(c, {m})), grad = t.input(f32, leading(c, {m, 1}), g);
        const auto gradients = [&] {
            return mhc::MixGradients<TensorView>{t.output(f32, leading(c, {m})), preset(stream, t, p.old_scale),
                                                 preset(stream, t, p.old_base)};
        };
        const mhc::MixGradients<TensorView> to = gradients(), fresh = gradients();
        mhc::head_compute_mix_forward(stream, inputs, out, c.eps);
        mhc::head_compute_mix_backward(stream, inputs, grad, to, p.accumulate);
        mhc::head_compute_mix_backward(stream, inputs, grad, fresh);
        stream.synchronize();
        const auto e = extents_of(c);
        const auto returned = mhc::head_compute_mix_backward(stream, inputs, grad);
        return first_of(
            {mhc_reference::difference("out", t.read(out), mhc_reference::head(e, in)),
             compare_gradients(t, to, mhc_reference::head_gradients(e, in, g, p.added_scale(), p.added_base())),
             t.changed_input(),
             same("out", t.read(out), numbers_of(stream, mhc::head_compute_mix_forward(stream, inputs, c.eps))),
             same("grad_logits", t.read(fresh.logits), numbers_of(stream, returned.logits)),
             same("grad_scale", t.read(fresh.scale), numbers_of(stream, returned.scale)),
             same("grad_base", t.read(fresh.base), numbers_of(stream, returned.base))});
    });
}

}  // namespace tessera::test
