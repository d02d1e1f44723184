#include "kernels/mhc.hpp"

#include "bench/tensor_case.hpp"
#include "kernels/mhc_mixes.hpp"

namespace tessera::bench {

namespace {

constexpr std::int64_t tokens = 8192, streams = 4;

constexpr std::int64_t hidden = 7168;
const Shape one{tokens, hidden}, all{tokens, streams, hidden}, vectors{tokens, streams},
    matrices{tokens, streams, streams};
const char* const wide = "T=8192, m=4, H=7168";
using Tensors = const std::vector<Tensor>&;

void add_sinkhorn(std::vector<Case>& cases) {
    const mhc::SinkhornOptions options;
    const std::string name = "T=8192, m=4, repeat=10";
    cases.push_back(case_of(
        "mhc_sinkhorn_fwd", name, matrices.count() * 8,
        [=](const Stream& s, unsigned seed) {
            return std::vector<Tensor>{random_tensor(s, f32, matrices, seed), Tensor::empty(s, f32, matrices)};
        },
        [=](const Stream& s, const std::vector<Tensor>& t) { mhc::sinkhorn_forward(s, t[0], t[1], options); },
        [] { return mhc::sinkhorn_forward_program({}); }, matrices.count()));
    cases.push_back(case_of(
        "mhc_sinkhorn_bwd", name, matrices.count() * 12,
        [=](const Stream& s, unsigned seed) {
            return std::vector<Tensor>{random_tensor(s, f32, matrices, seed), random_tensor(s, f32, matrices, seed + 1),
                                       Tensor::empty(s, f32, matrices)};
        },
        [=](const Stream& s, const std::vector<Tensor>& t) { mhc::sinkhorn_backward(s, t[0], t[1], t[2], options); },
        [=] { return mhc::sinkhorn_backward_program({}, options.repeat); }, matrices.count()));
}

void add_streams(std::vector<Case>& cases) {
    const std::int64_t row = one.count() * 2;
    cases.push_back(case_of(
        "mhc_expand_fwd", wide, row * 5,
        [](const Stream& s, unsigned seed) { return Maker(s, seed).in(bf16, one).out(bf16, all).tensors(); },
        [](const Stream& s, Tensors t) { mhc::expand_forward(s, t[0], t[1]); },
        [] { return mhc::expand_forward_program({}); }, one.count()));
    cases.push_back(case_of(
        "mhc_expand_bwd", wide, row * 5,
        [](const Stream& s, unsigned seed) { return Maker(s, seed).in(bf16, all).out(bf16, one).tensors(); },
        [](const Stream& s, Tensors t) { mhc::expand_backward(s, t[0], t[1]); },
        [] { return mhc::expand_backward_program({}); }, all.count()));
    cases.push_back(case_of(
        "mhc_pre_apply_mix_fwd", wide, row * 5 + vectors.count() * 4,
        [](const Stream& s, unsigned seed) {
            return Maker(s, seed).in(bf16, all).in(f32, vectors).out(bf16, one).tensors();
        },
        [](const Stream& s, Tensors t) { mhc::apply_mix_forward(s, t[0], t[1], t[2]); },
        [] { return mhc::apply_mix_forward_program({}); }, all.count()));
    for (const bool adds : {false, true}) {
        const mhc::Residual mode = adds ? mhc::Residual::accumulate : mhc::Residual::overwrite;
        cases.push_back(case_of(
            "mhc_pre_apply_mix_bwd", std::string(wide) + (adds ? " (accumulates)" : ""),
            row * (adds ? 13 : 9) + vectors.count() * 8,
            [](const Stream& s, unsigned seed) {
                return Maker(s, seed)
                    .in(bf16, all)
                    .in(f32, vectors)
                    .in(bf16, one)
                    .in(bf16, all)
                    .out(f32, vectors)
                    .tensors();
            },
            [=](const Stream& s, Tensors t) { mhc::apply_mix_backward(s, t[0], t[1], t[2], {t[3], t[4]}, mode); },
            [=] { return mhc::apply_mix_backward_program({streams, hidden, true, mode}); }, all.count()));
    }
    cases.push_back(case_of(
        "mhc_post_fwd", wide, row * 9 + (vectors.count() + matrices.count()) * 4,
        [](const Stream& s, unsigned seed) {
            return Maker(s, seed)
                .in(bf16, one)
                .in(bf16, all)
                .in(f32, vectors)
                .in(f32, matrices)
                .out(bf16, all)
                .tensors();
        },
        [](const Stream& s, Tensors t) { mhc::post_forward(s, {t[0], t[1], t[2], t[3]}, t[4]); },
        [] { return mhc::post_forward_program({}); }, all.count()));
    cases.push_back(case_of(
        "mhc_post_bwd", wide, row * 14 + (vectors.count() + matrices.count()) * 8,
        [](const Stream& s, unsigned seed) {
            Maker m(s, seed);
            m.in(bf16, one).in(bf16, all).in(f32, vectors).in(f32, matrices).in(bf16, all);
            return m.out(bf16, one).out(bf16, all).out(f32, vectors).out(f32, matrices).tensors();
        },
        [](const Stream& s, Tensors t) {
            mhc::post_backward(s, {t[0], t[1], t[2], t[3]}, t[4],
                               mhc::PostGradients<TensorView>{t[5], t[6], t[7], t[8]});
        },
        [] { return mhc::post_backward_program({}); }, all.count()));
}

void add_mixes(std::vector<Case>& cases) {
    constexpr std::int64_t columns = streams * (streams + 2);
    const Shape logits{tokens, columns};
    const std::string name = "T=8192, m=4";
    const auto inputs = [=](const Stream& s, unsigned seed) {
        Maker m(s, seed);
        return m.in(f32, logits).in(f32, {3}).in(f32, {columns}).in(f32, vectors).in(f32, vectors).in(f32, matrices);
    };
    cases.push_back(case_of(
        "mhc_pre_split_mixes_fwd", name, logits.count() * 8,
        [=](const Stream& s, unsigned seed) { return inputs(s, seed).tensors(); },
        [](const Stream& s, Tensors t) {
            mhc::split_mixes_forward(s, {t[0], t[1], t[2]}, mhc::Mixes<TensorView>{t[3], t[4], t[5]});
        },
        [] { return mhc::split_mixes_forward_program({}); }, logits.count()));
    cases.push_back(case_of(
        "mhc_pre_split_mixes_bwd", name + " (with the sum over tokens)", logits.count() * 12 + vectors.count() * 4,
        [=](const Stream& s, unsigned seed) {
            return inputs(s, seed).in(f32, vectors).out(f32, logits).out(f32, {3}).out(f32, {columns}).tensors();
        },
        [](const Stream& s, Tensors t) {
            mhc::split_mixes_backward(s, {t[0], t[1], t[2]}, t[6], mhc::Mixes<TensorView>{t[3], t[4], t[5]},
                                      mhc::MixGradients<TensorView>{t[7], t[8], t[9]});
        },
        [] { return mhc::split_mixes_backward_program({}); }, logits.count()));
    cases.push_back(case_of(
        "mhc_head_compute_mix_fwd", name, vectors.count() * 8,
        [](const Stream& s, unsigned seed) {
            return Maker(s, seed).in(f32, vectors).in(f32, {1}).in(f32, {streams}).out(f32, vectors).tensors();
        },
        [](const Stream& s, Tensors t) { mhc::head_compute_mix_forward(s, {t[0], t[1], t[2]}, t[3]); },
        [] { return mhc::head_compute_mix_forward_program({}); }, vectors.count()));
    cases.push_back(case_of(
        "mhc_head_compute_mix_bwd", name + " (with the sum over tokens)", vectors.count() * 12,
        [](const Stream& s, unsigned seed) {
            Maker m(s, seed);
            m.in(f32, vectors).in(f32, {1}).in(f32, {streams}).in(f32, vectors);
            return m.out(f32, vectors).out(f32, {1}).out(f32, {streams}).tensors();
        },
        [](const Stream& s, Tensors t) {
            mhc::head_compute_mix_backward(s, {t[0], t[1], t[2]}, t[3],
                                           mhc::MixGradients<TensorView>{t[4], t[5], t[6]});
        },
        [] { return mhc::head_compute_mix_backward_program({}); }, vectors.count()));
}

}  // namespace

std::vector<Case> mhc_cases() {
    std::vector<Case> cases;
    add_streams(cases);
    add_mixes(cases);
    add_sinkhorn(cases);
    add_mhc_norm_cases(cases);
    return cases;
}

}  // namespace tessera::bench
