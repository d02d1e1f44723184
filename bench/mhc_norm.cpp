#include "bench/tensor_case.hpp"
#include "kernels/mhc/norm_kernels.hpp"
#include "kernels/mhc/norm_plan.hpp"

// The logits of hyper-connections, at m = 4 and H = 7168: each product and each reduction alone, and pre_big_fuse.

namespace tessera::bench {

namespace {

constexpr std::int64_t streams = 4, hidden = 7168, inner = streams * hidden, columns = streams * (streams + 2);
const Shape weights{columns, inner};
constexpr std::int64_t weight_bytes = columns * inner * 4;
constexpr float eps = 1e-6f;
using Tensors = const std::vector<Tensor>&;

std::string tokens_text(std::int64_t tokens) { return "T=" + std::to_string(tokens); }

std::int64_t splits_for(const Stream& s, std::int64_t tokens) {
    return mhc::norm_splits(tokens, inner, s.device().target().multiprocessors);
}

/// Scale and base of the mixes, then what they are for: post, comb and the layer's input.
Maker& with_mixes(Maker& m, std::int64_t tokens) {
    return m.in(f32, {3})
        .in(f32, {columns})
        .out(f32, {tokens, streams})
        .out(f32, {tokens, streams, streams})
        .out(bf16, {tokens, hidden});
}

void add_forward(std::vector<Case>& cases, std::int64_t tokens) {
    cases.push_back(case_of(
        "mhc_norm_fn_fwd product", tokens_text(tokens) + ", m=4, H=7168 (K=28672, N=24)",
        tokens * inner * 2 + weight_bytes + tokens * (columns + 1) * 4,
        [=](const Stream& s, unsigned seed) {
            const std::int64_t splits = splits_for(s, tokens);
            Maker m(s, seed);
            m.in(bf16, {tokens, inner}).in(f32, weights);
            return m.out(f32, {splits, tokens, columns}).out(f32, {splits, tokens}).tensors();
        },
        [=](const Stream& s, Tensors t) { mhc::launch_norm_product(s, t[0], t[1], true, {t[2], t[3]}); },
        [] { return mhc::norm_product_program({}); }, tokens * inner));
}

void add_halves(std::vector<Case>& cases, std::int64_t tokens) {
    cases.push_back(case_of(
        "mhc_norm_fn_fwd product", tokens_text(tokens) + ", m=4, H=7168, from halves of fn",
        tokens * inner * 2 + weight_bytes + tokens * (columns + 1) * 4,
        [=](const Stream& s, unsigned seed) {
            const std::int64_t splits = splits_for(s, tokens);
            Maker m(s, seed);
            m.in(bf16, {tokens, inner}).in(bf16, {2 * columns, inner});
            return m.out(f32, {splits, tokens, columns}).out(f32, {splits, tokens}).tensors();
        },
        [](const Stream& s, Tensors t) { mhc::launch_norm_product_halves(s, t[0], t[1], {t[2], t[3]}); },
        [] { return mhc::norm_product_halves_program({}); }, tokens * inner));
}

void add_reductions(std::vector<Case>& cases) {
    constexpr std::int64_t tokens = 8192;
    const Shape logits{tokens, columns};
    cases.push_back(case_of(
        "mhc_norm_fn_fwd reduce", tokens_text(tokens), tokens * (3 * columns + 2) * 4,
        [=](const Stream& s, unsigned seed) {
            return Maker(s, seed)
                .in(f32, {1, tokens, columns})
                .in(f32, {1, tokens})
                .out(f32, logits)
                .out(f32, logits)
                .out(f32, {tokens})
                .tensors();
        },
        [](const Stream& s, Tensors t) { mhc::launch_norm_reduce(s, {t[0], t[1]}, inner, eps, t[2], t[3], t[4]); },
        [] { return mhc::norm_reduce_program({}); }, logits.count()));
    cases.push_back(case_of(
        "mhc_norm_fn_bwd reduce", tokens_text(tokens), tokens * (3 * columns + 2) * 4,
        [=](const Stream& s, unsigned seed) {
            return Maker(s, seed)
                .in(f32, logits)
                .in(f32, logits)
                .in(f32, {tokens})
                .out(f32, logits)
                .out(f32, {tokens})
                .tensors();
        },
        [](const Stream& s, Tensors t) {
            mhc::launch_norm_backward_reduce(s, inner, eps, t[0], t[1], t[2], {t[3], t[4]});
        },
        [] { return mhc::norm_backward_reduce_program({}); }, logits.count()));
}

void add_backward(std::vector<Case>& cases) {
    constexpr std::int64_t tokens = 8192;
    cases.push_back(case_of(
        "mhc_norm_fn_bwd product", tokens_text(tokens) + ", m=4, H=7168 (accumulates)",
        tokens * inner * 6 + 2 * weight_bytes + tokens * (columns + 1) * 4,
        [=](const Stream& s, unsigned seed) {
            return Maker(s, seed)
                .in(bf16, {tokens, inner})
                .in(f32, weights)
                .in(f32, {tokens, columns})
                .in(f32, {tokens})
                .in(bf16, {tokens, inner})
                .out(f32, weights)
                .tensors();
        },
        [](const Stream& s, Tensors t) {
            mhc::launch_norm_product_backward(s, t[0], t[1], {t[2], t[3]}, t[4], mhc::Residual::accumulate, t[5],
                                              false);
        },
        [] { return mhc::norm_product_backward_program({columns, inner, true, true}); }, tokens * inner));
}

void add_whole(std::vector<Case>& cases, std::int64_t tokens) {
    const Shape all{tokens, streams, hidden};
    cases.push_back(case_of(
        "mhc_pre_big_fuse whole (GEMM + fuse)", tokens_text(tokens) + ", m=4, H=7168, 16 splits asked",
        tokens * (2 * inner * 2 + hidden * 2 + (streams + streams * streams) * 4) + weight_bytes,
        [=](const Stream& s, unsigned seed) {
            Maker m(s, seed);
            m.in(bf16, all).in(f32, weights);
            return with_mixes(m, tokens).tensors();
        },
        [](const Stream& s, Tensors t) {
            mhc::pre_big_fuse(s, {t[0], t[1], t[2], t[3]}, mhc::Pre<TensorView>{t[4], t[5], t[6]});
        },
        [] { return mhc::pre_mix_program({}); }, all.count()));
}

void add_mix(std::vector<Case>& cases) {
    constexpr std::int64_t tokens = 8192, splits = 16;
    cases.push_back(case_of(
        "mhc_pre_big_fuse_fwd", tokens_text(tokens) + ", m=4, H=7168, 16 splits, without the GEMM",
        tokens * (inner * 2 + hidden * 2 + splits * (columns + 1) * 4 + (streams + streams * streams) * 4),
        [](const Stream& s, unsigned seed) {
            Maker m(s, seed);
            m.in(bf16, {tokens, inner}).in(f32, {splits, tokens, columns}).in(f32, {splits, tokens});
            return with_mixes(m, tokens).tensors();
        },
        [](const Stream& s, Tensors t) {
            mhc::launch_pre_mix(s, {t[1], t[2]}, t[0], {t[0], t[0], t[3], t[4]}, {t[5], t[6], t[7]}, {});
        },
        [] {
            mhc::PreMixForm form;
            form.at_once = mhc::pre_mix_at_once(streams, splits);
            return mhc::pre_mix_program(form);
        },
        tokens * inner));
}

}  // namespace

void add_mhc_norm_cases(std::vector<Case>& cases) {
    for (const std::int64_t tokens : {512, 2048, 8192}) add_forward(cases, tokens);
    for (const std::int64_t tokens : {512, 2048, 8192}) add_halves(cases, tokens);
    add_reductions(cases);
    add_backward(cases);
    for (const std::int64_t tokens : {512, 2048, 8192}) add_whole(cases, tokens);
    add_mix(cases);
}

}  // namespace tessera::bench
