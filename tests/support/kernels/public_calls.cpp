#include "tests/support/kernels/public_calls.hpp"

#include <bit>
#include <cstring>

#include "kernels/engram.hpp"
#include "kernels/mhc.hpp"
#include "kernels/mhc_mixes.hpp"
#include "kernels/moe.hpp"
#include "kernels/quant_channel.hpp"
#include "kernels/swiglu.hpp"
#include "kernels/transpose.hpp"
#include "runtime/prepare.hpp"
#include "tests/support/random.hpp"

namespace tessera::test {

namespace {

constexpr std::int64_t tokens = 128, hidden = 256, topk = 2, rows = tokens * topk;

/// Numbers around 1 of both signs; codes without those of NaN; ue8m0 scales around 1.
Tensor filled(const Stream& stream, Element element, const Shape& extents, Random& random) {
    const Tensor host = Tensor::empty(Device::host(), element, extents);
    auto* const bytes = host.as<std::uint8_t>();
    for (std::int64_t i = 0; i < host.bytes(); ++i) {
        const auto any = static_cast<std::uint8_t>(random.next());
        bytes[i] = element == ue8m0 || element == i32 ? static_cast<std::uint8_t>(120 + any % 16) : any & 0x77;
    }
    for (std::int64_t i = 0; element == bf16 && i < host.count(); ++i)
        host.as<std::uint16_t>()[i] =
            static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(static_cast<float>(4 * random.unit() - 2)) >> 16);
    for (std::int64_t i = 0; element == f32 && i < host.count(); ++i)
        host.as<float>()[i] = static_cast<float>(4 * random.unit() - 2);
    return Tensor::from_host(stream, element, extents, host.data());
}

Tensor positive(const Stream& stream, const Shape& extents, Random& random) {
    const Tensor host = Tensor::empty(Device::host(), f32, extents);
    for (std::int64_t i = 0; i < host.count(); ++i) host.as<float>()[i] = static_cast<float>(0.5 + random.unit());
    return Tensor::from_host(stream, f32, extents, host.data());
}

/// Numbers 0 … count − 1 in an order of the seed: which row a slot went to, or which slot a row came from.
Tensor shuffled(const Stream& stream, std::int64_t count, const Shape& extents, Random& random) {
    std::vector<std::int32_t> numbers(static_cast<std::size_t>(count));
    for (std::size_t i = 0; i < numbers.size(); ++i) {
        const auto j = static_cast<std::size_t>(random.between(0, static_cast<std::int64_t>(i)));
        numbers[i] = numbers[j];
        numbers[j] = static_cast<std::int32_t>(i);
    }
    return Tensor::from_host(stream, i32, extents, numbers.data());
}

/// The outputs come from the allocating form, with launches switched off.
PreparedCall call_of(std::vector<Tensor> inputs, std::function<std::vector<Tensor>()> allocate,
                     const std::function<std::function<void()>(const std::vector<Tensor>&)>& into) {
    PreparedCall call;
    call.inputs = std::move(inputs);
    call.run_and_allocate = std::move(allocate);
    prepare([&] { call.outputs = call.run_and_allocate(); });
    call.run = into(call.outputs);
    prepare(call.run);
    return call;
}

std::vector<Tensor> list(const quant::Quantized& q) { return {q.data, q.sf}; }
using Out = const std::vector<Tensor>&;

template <Element In, Element Format, quant::ScaleLayout Layout>
PreparedCall token_cast(const Stream& s, std::uint64_t seed) {
    Random random(seed);
    const Tensor x = filled(s, In, {tokens, hidden}, random);
    const quant::CastOptions options{Format, Format == e5m6 ? hidden : 128, Layout};
    return call_of(
        {x}, [=] { return list(quant::per_token_cast(s, x.view(), options)); },
        [=](Out o) { return [=] { quant::per_token_cast(s, x.view(), o[0], o[1], options); }; });
}

PreparedCall sf_only(const Stream& s, std::uint64_t seed) {
    Random random(seed);
    const Tensor x = filled(s, bf16, {tokens, hidden}, random);
    return call_of(
        {x}, [=] { return std::vector<Tensor>{quant::per_token_cast_with_sf_only(s, x)}; },
        [=](Out o) { return [=] { quant::per_token_cast_with_sf_only(s, x, o[0]); }; });
}

PreparedCall precomputed(const Stream& s, std::uint64_t seed) {
    Random random(seed);
    const Tensor x = filled(s, bf16, {tokens, hidden}, random), sf = positive(s, {tokens, hidden / 128}, random);
    return call_of(
        {x, sf}, [=] { return std::vector<Tensor>{quant::per_token_cast_with_precomputed_sf(s, x, sf)}; },
        [=](Out o) { return [=] { quant::per_token_cast_with_precomputed_sf(s, x, sf, o[0]); }; });
}

PreparedCall requantize(const Stream& s, std::uint64_t seed) {
    Random random(seed);
    const Tensor x = filled(s, e2m1, {tokens, hidden}, random), sf = positive(s, {tokens, hidden / 128}, random);
    const quant::QuantizedView pair{x, sf};
    return call_of(
        {x, sf}, [=] { return list(quant::per_token_cast(s, pair)); },
        [=](Out o) { return [=] { quant::per_token_cast(s, pair, o[0], o[1]); }; });
}

PreparedCall block_cast(const Stream& s, std::uint64_t seed) {
    Random random(seed);
    const Tensor x = filled(s, f32, {tokens, hidden}, random);
    return call_of(
        {x}, [=] { return list(quant::per_block_cast(s, x)); },
        [=](Out o) { return [=] { quant::per_block_cast(s, x, o[0], o[1]); }; });
}

PreparedCall cast_back(const Stream& s, std::uint64_t seed) {
    Random random(seed);
    const Tensor x = filled(s, e4m3, {tokens, hidden}, random), sf = positive(s, {tokens, hidden / 128}, random);
    const quant::QuantizedView pair{x, sf};
    return call_of(
        {x, sf}, [=] { return std::vector<Tensor>{quant::cast_back(s, pair)}; },
        [=](Out o) { return [=] { quant::cast_back(s, pair, o[0]); }; });
}

template <bool Transpose>
PreparedCall channel_cast(const Stream& s, std::uint64_t seed) {
    Random random(seed);
    const Tensor x = filled(s, bf16, {tokens, hidden}, random);
    return call_of(
        {x},
        [=] { return list(Transpose ? quant::per_channel_cast_and_transpose(s, x) : quant::per_channel_cast(s, x)); },
        [=](Out o) {
            return [=] {
                Transpose ? quant::per_channel_cast_and_transpose(s, x, o[0], o[1])
                          : quant::per_channel_cast(s, x, o[0], o[1]);
            };
        });
}

template <bool Pair>
PreparedCall channel_cast_fused(const Stream& s, std::uint64_t seed) {
    Random random(seed);
    const Tensor x = filled(s, Pair ? e4m3 : bf16, {tokens, hidden}, random),
                 sf = positive(s, {tokens, hidden / 128}, random), order = shuffled(s, tokens, {tokens}, random);
    quant::FusedChannelCastOptions options;
    options.pos_to_token = order;
    if constexpr (Pair) {
        const quant::QuantizedView pair{x, sf};
        return call_of(
            {x, sf, order}, [=] { return list(quant::per_channel_cast_fused(s, pair, options)); },
            [=](Out o) { return [=] { quant::per_channel_cast_fused(s, pair, o[0], o[1], options); }; });
    } else {
        return call_of(
            {x, order}, [=] { return list(quant::per_channel_cast_fused(s, x.view(), options)); },
            [=](Out o) { return [=] { quant::per_channel_cast_fused(s, x.view(), o[0], o[1], options); }; });
    }
}

PreparedCall expand(const Stream& s, std::uint64_t seed) {
    Random random(seed);
    const Tensor x = filled(s, bf16, {tokens, hidden}, random), slots = shuffled(s, rows, {tokens, topk}, random),
                 experts = shuffled(s, rows, {rows}, random);
    return call_of(
        {x, slots, experts}, [=] { return std::vector<Tensor>{moe::expand_to_fused(s, x, slots, experts)}; },
        [=](Out o) { return [=] { moe::expand_to_fused(s, x, slots, experts, o[0]); }; });
}

PreparedCall expand_with_sf(const Stream& s, std::uint64_t seed) {
    Random random(seed);
    const Tensor x = filled(s, e4m3, {tokens, hidden}, random), sf = positive(s, {tokens, hidden / 128}, random),
                 slots = shuffled(s, rows, {tokens, topk}, random), experts = shuffled(s, rows, {rows}, random);
    return call_of(
        {x, sf, slots, experts},
        [=] {
            const moe::Expanded e = moe::expand_to_fused_with_sf(s, x, sf, slots, experts);
            return std::vector<Tensor>{e.data, e.sf};
        },
        [=](Out o) { return [=] { moe::expand_to_fused_with_sf(s, x, sf, slots, experts, o[0], o[1]); }; });
}

PreparedCall reduce(const Stream& s, std::uint64_t seed) {
    Random random(seed);
    const Tensor x = filled(s, bf16, {rows, hidden}, random), slots = shuffled(s, rows, {tokens, topk}, random),
                 weights = positive(s, {tokens, topk}, random);
    moe::ReduceOptions options;
    options.topk_weights = weights;
    return call_of(
        {x, slots, weights}, [=] { return std::vector<Tensor>{moe::reduce_fused(s, x, slots, options)}; },
        [=](Out o) { return [=] { moe::reduce_fused(s, x, slots, o[0], options); }; });
}

PreparedCall swiglu_forward(const Stream& s, std::uint64_t seed) {
    Random random(seed);
    const Tensor x = filled(s, bf16, {rows, 2 * hidden}, random), slots = shuffled(s, rows, {rows}, random),
                 weights = positive(s, {tokens, topk}, random);
    swiglu::ForwardOptions options;
    options.scale_layout = quant::ScaleLayout::packed_ue8m0;
    swiglu::ForwardMaps maps;
    maps.pos_to_token_topk = slots, maps.topk_weights = weights;
    return call_of(
        {x, slots, weights}, [=] { return list(swiglu::forward_and_per_token_cast(s, x, options, maps)); },
        [=](Out o) { return [=] { swiglu::forward_and_per_token_cast(s, x, o[0], o[1], options, maps); }; });
}

PreparedCall swiglu_backward(const Stream& s, std::uint64_t seed) {
    Random random(seed);
    const Tensor x = filled(s, e4m3, {rows, 2 * hidden}, random), sf = positive(s, {rows, 2 * hidden / 128}, random),
                 grad = filled(s, bf16, {rows, hidden}, random), weight = positive(s, {tokens, topk}, random),
                 slots = shuffled(s, rows, {rows}, random);
    // The inverse of the rows' slots, so that every slot has its row.
    const Tensor host_slots = slots.to_host(s), places = Tensor::empty(Device::host(), i32, {tokens, topk});
    for (std::int32_t row = 0; row < rows; ++row) places.as<std::int32_t>()[host_slots.as<std::int32_t>()[row]] = row;
    const Tensor to_row = Tensor::from_host(s, i32, {tokens, topk}, places.data());
    const swiglu::BackwardInputs inputs{x, sf, grad, weight, slots, to_row};
    return call_of(
        {x, sf, grad, weight, slots, to_row},
        [=] {
            const auto out = swiglu::backward_and_per_token_cast(s, inputs);
            return std::vector<Tensor>{out.out, out.x_grad_q, out.x_grad_sf, out.x_grad, out.weight_grad};
        },
        [=](Out o) {
            const swiglu::BackwardOutputs<TensorView> outputs{o[0], o[1], o[2], o[3], o[4]};
            return [=] { swiglu::backward_and_per_token_cast(s, inputs, outputs); };
        });
}

PreparedCall engram_weight(const Stream& s, std::uint64_t seed) {
    Random random(seed);
    const Tensor a = filled(s, bf16, {4, hidden}, random), b = filled(s, bf16, {4, hidden}, random);
    return call_of(
        {a, b}, [=] { return std::vector<Tensor>{engram::fused_weight(s, a, b)}; },
        [=](Out o) { return [=] { engram::fused_weight(s, a, b, o[0]); }; });
}

PreparedCall engram_gate(const Stream& s, std::uint64_t seed) {
    Random random(seed);
    const Tensor x = filled(s, bf16, {tokens, 4, hidden}, random), k = filled(s, bf16, {tokens, 4, hidden}, random);
    const Tensor v = filled(s, bf16, {tokens, hidden}, random), w = filled(s, f32, {4, hidden}, random);
    return call_of(
        {x, k, v, w},
        [=] {
            const engram::GateOutputs g = engram::gate_forward(s, {x, k, v, w});
            return std::vector<Tensor>{g.output, g.dot, g.gate_score, g.rstd_x, g.rstd_k};
        },
        [=](Out o) {
            return
                [=] { engram::gate_forward(s, {x, k, v, w}, engram::GateOutputViews{o[0], o[1], o[2], o[3], o[4]}); };
        });
}

PreparedCall engram_gate_backward(const Stream& s, std::uint64_t seed) {
    Random random(seed);
    const Tensor x = filled(s, bf16, {tokens, 4, hidden}, random), k = filled(s, bf16, {tokens, 4, hidden}, random);
    const Tensor v = filled(s, bf16, {tokens, hidden}, random), w = filled(s, f32, {4, hidden}, random);
    const Tensor go = filled(s, bf16, {tokens, 4, hidden}, random), dot = filled(s, f32, {tokens, 4}, random);
    const Tensor gate = positive(s, {tokens, 4}, random), rstd = positive(s, {tokens, 4}, random);
    const engram::BackwardInputs in{go, {x, k, v, w}, dot, gate, rstd, rstd};
    return call_of(
        {x, k, v, w, go, dot, gate, rstd},
        [=] {
            const engram::BackwardOutputs g = engram::gate_backward(s, in);
            return std::vector<Tensor>{g.grad_hidden_states, g.grad_k, g.grad_v, g.grad_w_partial};
        },
        [=](Out o) {
            return [=] { engram::gate_backward(s, in, engram::BackwardOutputViews{o[0], o[1], o[2], o[3]}); };
        });
}

PreparedCall batched_transpose(const Stream& s, std::uint64_t seed) {
    Random random(seed);
    const Tensor x = filled(s, bf16, {2, tokens, hidden}, random);
    return call_of(
        {x}, [=] { return std::vector<Tensor>{transpose::batched_transpose(s, x)}; },
        [=](Out o) { return [=] { transpose::batched_transpose(s, x, o[0]); }; });
}

PreparedCall plain_transpose(const Stream& s, std::uint64_t seed) {
    Random random(seed);
    const Tensor x = filled(s, e4m3, {tokens, hidden}, random);
    return call_of(
        {x}, [=] { return std::vector<Tensor>{transpose::transpose(s, x)}; },
        [=](Out o) { return [=] { transpose::transpose(s, x, o[0]); }; });
}

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

}  // namespace

void PreparedCall::clear_outputs(const Stream& stream) const {
    for (const Tensor& out : outputs) copy(stream, out, Tensor::zeros(stream, out.element(), out.extents()));
}

std::vector<std::uint8_t> PreparedCall::bytes_of(const Stream& stream, const std::vector<Tensor>& tensors) {
    std::vector<std::uint8_t> bytes;
    for (const Tensor& t : tensors) {
        const Tensor host = t.to_host(stream);
        bytes.insert(bytes.end(), host.as<std::uint8_t>(), host.as<std::uint8_t>() + host.bytes());
    }
    return bytes;
}

const std::vector<PublicCall>& public_calls() {
    using quant::ScaleLayout;
    static const std::vector<PublicCall> calls = {
        {"per_token_cast bf16 to e4m3", token_cast<bf16, e4m3, ScaleLayout::row_major>},
        {"per_token_cast f32 to e2m1, packed scales", token_cast<f32, e2m1, ScaleLayout::packed_ue8m0>},
        {"per_token_cast bf16 to e5m6, column-major scales", token_cast<bf16, e5m6, ScaleLayout::column_major>},
        {"per_token_cast of a pair", requantize},
        {"per_token_cast_with_sf_only", sf_only},
        {"per_token_cast_with_precomputed_sf", precomputed},
        {"per_block_cast", block_cast},
        {"cast_back", cast_back},
        {"per_channel_cast", channel_cast<false>},
        {"per_channel_cast_and_transpose", channel_cast<true>},
        {"per_channel_cast_fused", channel_cast_fused<false>},
        {"per_channel_cast_fused of a pair", channel_cast_fused<true>},
        {"expand_to_fused", expand},
        {"expand_to_fused_with_sf", expand_with_sf},
        {"reduce_fused", reduce},
        {"swiglu::forward_and_per_token_cast", swiglu_forward},
        {"swiglu::backward_and_per_token_cast", swiglu_backward},
        {"engram::fused_weight", engram_weight},
        {"engram::gate_forward", engram_gate},
        {"engram::gate_backward", engram_gate_backward},
        {"batched_transpose", batched_transpose},
        {"transpose", plain_transpose},
        {"mhc::sinkhorn, forward and backward", mhc_sinkhorn},
        {"mhc::expand and mhc::apply_mix, forward and backward", mhc_streams},
        {"mhc::post, forward and backward", mhc_post},
        {"mhc::split_mixes_forward", mhc_split},
        {"mhc::head_compute_mix_forward", mhc_head},
    };
    return calls;
}

}  // namespace tessera::test
