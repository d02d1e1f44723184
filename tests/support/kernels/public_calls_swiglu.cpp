#include "kernels/swiglu.hpp"
#include "tests/support/kernels/public_call_inputs.hpp"

namespace tessera::test {

namespace {

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

}  // namespace

std::vector<PublicCall> swiglu_calls() {
    return {
        {"swiglu::forward_and_per_token_cast", swiglu_forward},
        {"swiglu::backward_and_per_token_cast", swiglu_backward},
    };
}

}  // namespace tessera::test
