#include "kernels/mhc_norm.hpp"
#include "tests/support/kernels/public_call_inputs.hpp"

namespace tessera::test {

namespace {

PreparedCall mhc_merge(const Stream& s, std::uint64_t seed) {
    Random random(seed);
    const Tensor fn = filled(s, f32, {24, hidden}, random), weight = filled(s, f32, {hidden}, random),
                 g = filled(s, f32, {24, hidden}, random);
    return call_of(
        {fn, weight, g},
        [=] {
            const auto d = mhc::merge_norm_weight_backward(s, fn, weight, g);
            return std::vector<Tensor>{mhc::merge_norm_weight_forward(s, fn, weight), d.fn, d.weight};
        },
        [=](Out o) {
            const mhc::MergeGradients<TensorView> to{o[1], o[2]};
            return [=] {
                mhc::merge_norm_weight_forward(s, fn, weight, o[0]);
                mhc::merge_norm_weight_backward(s, fn, weight, g, to);
            };
        });
}

PreparedCall mhc_norm(const Stream& s, std::uint64_t seed) {
    Random random(seed);
    const Tensor r = filled(s, bf16, {tokens, 4, hidden}, random), fn = filled(s, f32, {24, 4 * hidden}, random),
                 g = filled(s, f32, {tokens, 24}, random);
    return call_of(
        {r, fn, g},
        [=] {
            const auto out = mhc::norm_fn_forward(s, {r, fn});
            const mhc::NormFnSaved<TensorView> saved{out.saved.fn, out.saved.products, out.saved.square_sum};
            const auto d = mhc::norm_fn_backward(s, r, saved, g);
            return std::vector<Tensor>{out.logits,           out.saved.fn, out.saved.products,
                                       out.saved.square_sum, d.residual,   d.fn};
        },
        [=](Out o) {
            const mhc::NormFnSaved<TensorView> saved{o[1], o[2], o[3]};
            const mhc::NormFnGradients<TensorView> to{o[4], o[5]};
            const mhc::NormFn<TensorView> forward{o[0], saved};
            return [=] {
                mhc::norm_fn_forward(s, {r, fn}, forward);
                mhc::norm_fn_backward(s, r, saved, g, to);
            };
        });
}

PreparedCall mhc_pre(const Stream& s, std::uint64_t seed) {
    Random random(seed);
    const Tensor r = filled(s, bf16, {tokens, 4, hidden}, random), fn = filled(s, f32, {24, 4 * hidden}, random),
                 scale = filled(s, f32, {3}, random), base = filled(s, f32, {24}, random);
    const mhc::PreInputs inputs{r, fn, scale, base};
    return call_of(
        {r, fn, scale, base},
        [=] {
            const auto out = mhc::pre_big_fuse(s, inputs);
            return std::vector<Tensor>{out.post, out.comb, out.u};
        },
        [=](Out o) {
            const mhc::Pre<TensorView> to{o[0], o[1], o[2]};
            return [=] { mhc::pre_big_fuse(s, inputs, to); };
        });
}

}  // namespace

std::vector<PublicCall> mhc_norm_calls() {
    return {
        {"mhc::merge_norm_weight_forward and mhc::merge_norm_weight_backward", mhc_merge},
        {"mhc::norm_fn_forward and mhc::norm_fn_backward", mhc_norm, Scratch::taken},
        {"mhc::pre_big_fuse", mhc_pre, Scratch::taken},
    };
}

}  // namespace tessera::test
