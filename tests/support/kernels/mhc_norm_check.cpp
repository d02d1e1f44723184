#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "kernels/mhc/norm_kernels.hpp"
#include "kernels/mhc_mixes.hpp"
#include "kernels/mhc_norm.hpp"
#include "tests/support/kernels/mhc_check_support.hpp"
#include "tests/support/reference/formats.hpp"

namespace tessera::test {

namespace {

/// Residuals a little larger in later streams; every other token so small that eps counts.
Numbers residual_of(Random& random, const MhcCase& c) {
    Numbers r = normal_bf16(random, c.tokens * c.streams * c.hidden);
    for (std::size_t i = 0; i < r.size(); ++i) {
        const auto row = static_cast<std::int64_t>(i) / c.hidden, stream = row % c.streams;
        const float scale = 1 + 0.01f * static_cast<float>(stream);
        const float v = r[i] * scale * (row / c.streams % 2 == 1 ? 0x1p-10f : 1.0f);
        r[i] = reference::bf16_value(reference::bf16_nearest(v));
    }
    return r;
}

/// An output that holds these values before, exact in its type.
TensorView preset(const Stream& stream, CallTensors& t, Element element, const Shape& extents, const Numbers& values) {
    const TensorView view = t.output(element, extents);
    const Tensor all = Tensor::empty(Device::host(), element, extents);
    for (std::int64_t i = 0; i < all.count(); ++i) {
        const float v = values[static_cast<std::size_t>(i)];
        if (element == f32)
            all.as<float>()[i] = v;
        else
            all.as<std::uint16_t>()[i] = static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(v) >> 16);
    }
    copy(stream, view, all);
    return view;
}

mhc_reference::Norm norm_of(Random& random, const MhcNormCase& c) {
    return {residual_of(random, c.common), normal_numbers(random, c.columns * c.inner(), c.common.size),
            static_cast<double>(c.common.eps)};
}

std::string same_bytes(const char* name, const CallTensors& t, const TensorView& a, const TensorView& b) {
    return t.bytes(a) == t.bytes(b) ? "" : std::string(name) + ": two runs differ";
}
std::string same_bits(const char* name, const Numbers& a, const Numbers& b) {
    if (a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0))
        return "";
    return std::string(name) + " has other bits than the chain of kernels gives";
}

/// What the kernels make of two rows of halves is fn, rounded to TF32.
std::string unlike(const Numbers& halves, const Numbers& rounded) {
    for (std::size_t i = 0; i < rounded.size(); ++i) {
        const double sum = static_cast<double>(halves[i]) + static_cast<double>(halves[i + rounded.size()]);
        const bool tiny = std::fabs(rounded[i]) < 0x1p-123f;
        if (sum != static_cast<double>(rounded[i]) && !tiny) return "two halves do not add up to fn rounded to TF32";
    }
    return halves.size() == 2 * rounded.size() ? "" : "halves of another size";
}

}  // namespace

std::string check_mhc_norm_halves(const Device& device, const MhcNormCase& c) {
    return checked(c, [&]() -> std::string {
        const Stream stream = device.stream();
        Random random(c.common.seed);
        const std::int64_t n = c.common.tokens, columns = c.columns, splits = std::max<std::int64_t>(c.splits, 1);
        const mhc_reference::Norm in = norm_of(random, c);
        CallTensors t(stream, 0);
        const Shape weights{columns, c.inner()};
        const TensorView residual = t.input(bf16, {n, c.inner()}, in.residual), fn = t.input(f32, weights, in.fn),
                         rounded = t.output(f32, weights), by_itself = t.output(f32, weights);
        mhc::launch_round_weights(stream, fn, by_itself);
        const Tensor halves = mhc::launch_halve_weights(stream, fn, &rounded);
        const Tensor again = mhc::launch_halve_weights(stream, fn, nullptr);
        std::vector<Numbers> results;
        for (int run = 0; run < 2; ++run) {
            const mhc::SplitProducts parts(stream, splits, n, columns);
            mhc::launch_norm_product_halves(stream, residual, run == 0 ? halves : again, parts);
            const TensorView logits = t.output(f32, {n, columns}), products = t.output(f32, {n, columns}),
                             squares = t.output(f32, {n});
            mhc::launch_norm_reduce(stream, parts, c.inner(), c.common.eps, logits, products, squares);
            for (const TensorView& out : {logits, products, squares}) results.push_back(t.read(out));
        }
        const auto exact = mhc_reference::norm_fn(extents_of(c.common), in);
        return first_of({t.bytes(rounded) == t.bytes(by_itself) ? "" : "fn is rounded in two ways",
                         unlike(numbers_of(stream, halves), t.read(rounded)),
                         mhc_reference::difference("logits", results[0], exact.logits),
                         mhc_reference::difference("products", results[1], exact.products),
                         mhc_reference::difference("square_sum", results[2], exact.square_sum),
                         same_bits("logits of a second run", results[3], results[0]),
                         same_bits("products of a second run", results[4], results[1]),
                         same_bits("square_sum of a second run", results[5], results[2]), t.changed_input()});
    });
}

std::string check_mhc_norm_fn(const Device& device, const MhcNormCase& c) {
    return checked(c, [&]() -> std::string {
        const Stream stream = device.stream();
        Random random(c.common.seed);
        const std::int64_t n = c.common.tokens, m = c.common.streams, h = c.common.hidden, columns = c.columns;
        const mhc_reference::Norm in = norm_of(random, c);
        const Numbers g = normal_numbers(random, n * columns);
        const bool adds = c.common.accumulate, adds_fn = c.common.seed % 2 == 0;
        const Numbers old = normal_bf16(random, adds ? n * m * h : 0),
                      old_fn = normal_numbers(random, adds_fn ? columns * c.inner() : 0, 10.0);
        CallTensors t(stream, 0), small(stream, c.common.shift);
        const Shape all = leading(c.common, {m, h}), weights{columns, c.inner()};
        const TensorView residual = t.input(bf16, all, in.residual), fn = t.input(f32, weights, in.fn),
                         grad = small.input(f32, leading(c.common, {columns}), g);
        const mhc::NormFnOptions options{c.common.eps, c.splits};
        const auto outputs = [&] {
            return mhc::NormFn<TensorView>{small.output(f32, leading(c.common, {columns})),
                                           {t.output(f32, weights), small.output(f32, leading(c.common, {columns, 1})),
                                            small.output(f32, leading(c.common, {}))}};
        };
        const mhc::NormFn<TensorView> out = outputs(), again = outputs();
        mhc::norm_fn_forward(stream, {residual, fn}, out, options);
        mhc::norm_fn_forward(stream, {residual, fn}, again, options);
        const auto gradients = [&] {
            return mhc::NormFnGradients<TensorView>{
                adds ? preset(stream, t, bf16, all, old) : t.output(bf16, all),
                adds_fn ? preset(stream, t, f32, weights, old_fn) : t.output(f32, weights)};
        };
        const mhc::NormFnGradients<TensorView> to = gradients(), to_again = gradients();
        const mhc::Residual mode = adds ? mhc::Residual::accumulate : mhc::Residual::overwrite;
        mhc::norm_fn_backward(stream, residual, out.saved, grad, to, options, mode, adds_fn);
        mhc::norm_fn_backward(stream, residual, out.saved, grad, to_again, options, mode, adds_fn);
        stream.synchronize();
        const auto e = extents_of(c.common);
        const auto exact = mhc_reference::norm_fn(e, in);
        const auto exact_gradients = mhc_reference::norm_fn_gradients(e, in, g, old, old_fn);
        const auto returned = mhc::norm_fn_forward(stream, {residual, fn}, options);
        const auto returned_gradients = mhc::norm_fn_backward(stream, residual, out.saved, grad, options);
        const mhc::NormFnGradients<TensorView> fresh{t.output(bf16, all), t.output(f32, weights)};
        mhc::norm_fn_backward(stream, residual, out.saved, grad, fresh, options);
        stream.synchronize();
        return first_of(
            {mhc_reference::difference("logits", small.read(out.logits), exact.logits),
             mhc_reference::difference("products", small.read(out.saved.products), exact.products),
             mhc_reference::difference("square_sum", small.read(out.saved.square_sum), exact.square_sum),
             mhc_reference::difference("grad_residual", t.read(to.residual), exact_gradients.residual, true),
             mhc_reference::difference("grad_fn", t.read(to.fn), exact_gradients.fn),
             same_bytes("logits", small, out.logits, again.logits),
             same_bytes("grad_residual", t, to.residual, to_again.residual),
             same_bytes("grad_fn", t, to.fn, to_again.fn), t.changed_input(), small.changed_input(),
             same("logits", small.read(out.logits), numbers_of(stream, returned.logits)),
             same("saved fn", t.read(out.saved.fn), numbers_of(stream, returned.saved.fn)),
             same("products", small.read(out.saved.products), numbers_of(stream, returned.saved.products)),
             same("square_sum", small.read(out.saved.square_sum), numbers_of(stream, returned.saved.square_sum)),
             same("grad_residual", t.read(fresh.residual), numbers_of(stream, returned_gradients.residual)),
             same("grad_fn", t.read(fresh.fn), numbers_of(stream, returned_gradients.fn))});
    });
}

std::string check_mhc_merge_norm_weight(const Device& device, const MhcNormCase& c) {
    return checked(c, [&]() -> std::string {
        const Stream stream = device.stream();
        Random random(c.common.seed);
        const std::int64_t columns = c.columns, inner = c.inner() + c.common.shift % 3;  // any K
        const Numbers values = normal_numbers(random, columns * inner), w = normal_numbers(random, inner),
                      g = normal_numbers(random, columns * inner);
        const mhc::AccumulateMerge adds{c.common.accumulate, c.common.seed % 2 == 0};
        const Numbers old_fn = normal_numbers(random, columns * inner), old_weight = normal_numbers(random, inner);
        CallTensors t(stream, c.common.shift);
        const Shape extents{columns, inner};
        const TensorView fn = t.input(f32, extents, values), weight = t.input(f32, {inner}, w),
                         grad = t.input(f32, extents, g), out = t.output(f32, extents);
        const mhc::MergeGradients<TensorView> to{preset(stream, t, f32, extents, old_fn),
                                                 preset(stream, t, f32, {inner}, old_weight)};
        mhc::merge_norm_weight_forward(stream, fn, weight, out);
        mhc::merge_norm_weight_backward(stream, fn, weight, grad, to, adds);
        const auto returned = mhc::merge_norm_weight_backward(stream, fn, weight, grad);
        stream.synchronize();
        const auto exact = mhc_reference::merge_gradients(values, w, g, adds.fn ? old_fn : Numbers{},
                                                          adds.weight ? old_weight : Numbers{});
        const auto fresh = mhc_reference::merge_gradients(values, w, g);
        const Numbers merged = t.read(out);
        for (std::size_t i = 0; i < merged.size(); ++i)
            if (merged[i] != values[i] * w[i % w.size()]) return "a merged weight is not the product";
        return first_of(
            {mhc_reference::difference("grad_fn", t.read(to.fn), exact.fn),
             mhc_reference::difference("grad_weight", t.read(to.weight), exact.weight),
             mhc_reference::difference("returned grad_fn", numbers_of(stream, returned.fn), fresh.fn),
             mhc_reference::difference("returned grad_weight", numbers_of(stream, returned.weight), fresh.weight),
             t.changed_input(),
             same("out", merged, numbers_of(stream, mhc::merge_norm_weight_forward(stream, fn, weight)))});
    });
}

namespace {

/// The mixes and u as the kernels of training make them.
mhc::Pre<Tensor> unfused(const Stream& stream, const mhc::PreInputs& in, const mhc::PreOptions& o) {
    const auto logits =
        mhc::norm_fn_forward(stream, {in.residual, in.fn}, mhc::NormFnOptions{o.norm_eps, o.splits}).logits;
    const auto mixes = mhc::split_mixes_forward(stream, {logits, in.scale, in.base}, {o.post_mult, o.pre_eps});
    return {mixes.post, mhc::sinkhorn_forward(stream, mixes.comb, {o.repeat, o.sinkhorn_eps}),
            mhc::apply_mix_forward(stream, in.residual, mixes.pre)};
}

}  // namespace

std::string check_mhc_pre_big_fuse(const Device& device, const MhcNormCase& given) {
    MhcNormCase c = given;
    c.columns = c.common.streams * (c.common.streams + 2);
    return checked(c, [&]() -> std::string {
        const Stream stream = device.stream();
        Random random(c.common.seed);
        const std::int64_t m = c.common.streams, h = c.common.hidden;
        // Without eps, a column of logits far apart sums to 0 in f32, and has no normal form.
        const float sinkhorn_eps = c.common.seed % 5 == 0 && c.common.size < 0.01 ? 0.0f : c.common.eps;
        const mhc_reference::Pre in{norm_of(random, c),
                                    normal_numbers(random, 3),
                                    normal_numbers(random, c.columns),
                                    2.0,
                                    1e-2,
                                    static_cast<double>(sinkhorn_eps),
                                    c.common.repeat};
        CallTensors t(stream, 0), small(stream, c.common.shift);
        const mhc::PreInputs inputs{t.input(bf16, leading(c.common, {m, h}), in.norm.residual),
                                    t.input(f32, {c.columns, c.inner()}, in.norm.fn), small.input(f32, {3}, in.scale),
                                    small.input(f32, {c.columns}, in.base)};
        const mhc::PreOptions options{c.common.eps, 1e-2f, sinkhorn_eps, 2.0f, c.common.repeat, c.splits};
        const mhc::Pre<TensorView> out{small.output(f32, leading(c.common, {m, 1})),
                                       small.output(f32, leading(c.common, {m, m})),
                                       t.output(bf16, leading(c.common, {h}))};
        mhc::pre_big_fuse(stream, inputs, out, options);
        stream.synchronize();
        const auto returned = mhc::pre_big_fuse(stream, inputs, options), chain = unfused(stream, inputs, options);
        const Numbers post = small.read(out.post), comb = small.read(out.comb), u = t.read(out.u);
        const auto exact = mhc_reference::pre_big_fuse(extents_of(c.common), in, false);
        return first_of(
            {mhc_reference::difference("post", post, exact.post), mhc_reference::difference("comb", comb, exact.comb),
             mhc_reference::difference("u", u, exact.u, true), same_bits("post", post, numbers_of(stream, chain.post)),
             same_bits("comb", comb, numbers_of(stream, chain.comb)), same_bits("u", u, numbers_of(stream, chain.u)),
             t.changed_input(), small.changed_input(),
             same_bits("returned post", post, numbers_of(stream, returned.post)),
             same_bits("returned comb", comb, numbers_of(stream, returned.comb)),
             same_bits("returned u", u, numbers_of(stream, returned.u))});
    });
}

}  // namespace tessera::test
