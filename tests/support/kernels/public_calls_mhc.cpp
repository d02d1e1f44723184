#include "kernels/mhc.hpp"
#include "kernels/mhc_mixes.hpp"
#include "tests/support/kernels/public_call_inputs.hpp"

namespace tessera::test {

namespace {

PreparedCall mhc_sinkhorn(const Stream& s, std::uint64_t seed) {
    Random random(seed);
    const Tensor x = filled(s, f32, {tokens, 4, 4}, random), g = filled(s, f32, {tokens, 4, 4}, random);
    return call_of(
        {x, g}, [=] { return std::vector<Tensor>{mhc::sinkhorn_forward(s, x), mhc::sinkhorn_backward(s, x, g)}; },
        [=](Out o) {
            return [=] {
                mhc::sinkhorn_forward(s, x, o[0]);
                mhc::sinkhorn_backward(s, x, g, o[1]);
            };
        });
}

PreparedCall mhc_streams(const Stream& s, std::uint64_t seed) {
    Random random(seed);
    const Tensor x = filled(s, bf16, {tokens, hidden}, random), g = filled(s, bf16, {tokens, 4, hidden}, random),
                 mix = filled(s, f32, {tokens, 4}, random);
    return call_of(
        {x, g, mix},
        [=] {
            const auto apply = mhc::apply_mix_backward(s, g, mix, x);
            return std::vector<Tensor>{mhc::expand_forward(s, x), mhc::expand_backward(s, g),
                                       mhc::apply_mix_forward(s, g, mix), apply.residual, apply.mix};
        },
        [=](Out o) {
            const mhc::ApplyMixGradients<TensorView> to{o[3], o[4]};
            return [=] {
                mhc::expand_forward(s, x, o[0]);
                mhc::expand_backward(s, g, o[1]);
                mhc::apply_mix_forward(s, g, mix, o[2]);
                mhc::apply_mix_backward(s, g, mix, x, to);
            };
        });
}

PreparedCall mhc_post(const Stream& s, std::uint64_t seed) {
    Random random(seed);
    const Tensor y = filled(s, bf16, {tokens, hidden}, random), r = filled(s, bf16, {tokens, 4, hidden}, random),
                 g = filled(s, bf16, {tokens, 4, hidden}, random), post = filled(s, f32, {tokens, 4}, random),
                 comb = filled(s, f32, {tokens, 4, 4}, random);
    const mhc::PostInputs inputs{y, r, post, comb};
    return call_of(
        {y, r, g, post, comb},
        [=] {
            const auto d = mhc::post_backward(s, inputs, g);
            return std::vector<Tensor>{mhc::post_forward(s, inputs), d.y, d.residual, d.post, d.comb};
        },
        [=](Out o) {
            const mhc::PostGradients<TensorView> to{o[1], o[2], o[3], o[4]};
            return [=] {
                mhc::post_forward(s, inputs, o[0]);
                mhc::post_backward(s, inputs, g, to);
            };
        });
}

PreparedCall mhc_split(const Stream& s, std::uint64_t seed) {
    Random random(seed);
    const Tensor logits = filled(s, f32, {tokens, 24}, random), scale = filled(s, f32, {3}, random),
                 base = filled(s, f32, {24}, random);
    const mhc::SplitInputs inputs{logits, scale, base};
    return call_of(
        {logits, scale, base},
        [=] {
            const auto mixes = mhc::split_mixes_forward(s, inputs);
            return std::vector<Tensor>{mixes.pre, mixes.post, mixes.comb};
        },
        [=](Out o) {
            const mhc::Mixes<TensorView> to{o[0], o[1], o[2]};
            return [=] { mhc::split_mixes_forward(s, inputs, to); };
        });
}

PreparedCall mhc_head(const Stream& s, std::uint64_t seed) {
    Random random(seed);
    const Tensor logits = filled(s, f32, {tokens, 4}, random), scale = filled(s, f32, {1}, random),
                 base = filled(s, f32, {4}, random);
    const mhc::HeadInputs inputs{logits, scale, base};
    return call_of(
        {logits, scale, base}, [=] { return std::vector<Tensor>{mhc::head_compute_mix_forward(s, inputs)}; },
        [=](Out o) { return [=] { mhc::head_compute_mix_forward(s, inputs, o[0]); }; });
}

PreparedCall mhc_split_backward(const Stream& s, std::uint64_t seed) {
    Random random(seed);
    const Tensor logits = filled(s, f32, {tokens, 24}, random), scale = filled(s, f32, {3}, random),
                 base = filled(s, f32, {24}, random), post = positive(s, {tokens, 4}, random),
                 pre_grad = filled(s, f32, {tokens, 4}, random), post_grad = filled(s, f32, {tokens, 4}, random),
                 comb_grad = filled(s, f32, {tokens, 4, 4}, random);
    const mhc::SplitInputs inputs{logits, scale, base};
    const mhc::Mixes<TensorView> grad{pre_grad, post_grad, comb_grad};
    return call_of(
        {logits, scale, base, post, pre_grad, post_grad, comb_grad},
        [=] {
            const auto d = mhc::split_mixes_backward(s, inputs, post, grad);
            return std::vector<Tensor>{d.logits, d.scale, d.base};
        },
        [=](Out o) {
            const mhc::MixGradients<TensorView> to{o[0], o[1], o[2]};
            return [=] { mhc::split_mixes_backward(s, inputs, post, grad, to); };
        });
}

PreparedCall mhc_head_backward(const Stream& s, std::uint64_t seed) {
    Random random(seed);
    const Tensor logits = filled(s, f32, {tokens, 4}, random), scale = filled(s, f32, {1}, random),
                 base = filled(s, f32, {4}, random), grad = filled(s, f32, {tokens, 4}, random);
    const mhc::HeadInputs inputs{logits, scale, base};
    return call_of(
        {logits, scale, base, grad},
        [=] {
            const auto d = mhc::head_compute_mix_backward(s, inputs, grad);
            return std::vector<Tensor>{d.logits, d.scale, d.base};
        },
        [=](Out o) {
            const mhc::MixGradients<TensorView> to{o[0], o[1], o[2]};
            return [=] { mhc::head_compute_mix_backward(s, inputs, grad, to); };
        });
}

}  // namespace

std::vector<PublicCall> mhc_calls() {
    return {
        {"mhc::sinkhorn_forward and mhc::sinkhorn_backward", mhc_sinkhorn},
        {"mhc::expand_forward, mhc::expand_backward, mhc::apply_mix_forward and mhc::apply_mix_backward", mhc_streams},
        {"mhc::post_forward and mhc::post_backward", mhc_post},
        {"mhc::split_mixes_forward", mhc_split},
        {"mhc::split_mixes_backward", mhc_split_backward, Scratch::taken},
        {"mhc::head_compute_mix_forward", mhc_head},
        {"mhc::head_compute_mix_backward", mhc_head_backward, Scratch::taken},
    };
}

}  // namespace tessera::test
