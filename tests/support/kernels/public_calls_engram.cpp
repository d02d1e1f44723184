#include "kernels/engram.hpp"
#include "tests/support/kernels/public_call_inputs.hpp"

namespace tessera::test {

namespace {

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

PreparedCall engram_hash(const Stream& s, std::uint64_t seed) {
    Random random(seed);
    const auto numbers = [&](Element element, const Shape& extents, std::int64_t least, std::int64_t most) {
        const Tensor host = Tensor::empty(Device::host(), element, extents);
        for (std::int64_t i = 0; i < host.count(); ++i) {
            const std::int64_t n = random.between(least, most);
            if (element == i64)
                host.as<std::int64_t>()[i] = n;
            else
                host.as<std::int32_t>()[i] = static_cast<std::int32_t>(n);
        }
        return Tensor::from_host(s, element, extents, host.data());
    };
    const Tensor grams = numbers(i32, {tokens, 3}, 0, 100'000), factors = numbers(i64, {2, 3}, 1, 1 << 30),
                 sizes = numbers(i32, {2, 2, 4}, 1000, 2000), offsets = numbers(i32, {2, 8}, 0, 1 << 20);
    const engram::HashInputs inputs{grams, factors, sizes, offsets};
    return call_of(
        {grams, factors, sizes, offsets}, [=] { return std::vector<Tensor>{engram::hash(s, inputs)}; },
        [=](Out o) { return [=] { engram::hash(s, inputs, o[0]); }; });
}

PreparedCall engram_weight_gradients(const Stream& s, std::uint64_t seed) {
    Random random(seed);
    const Tensor partial = filled(s, f32, {16, 4, hidden}, random), a = filled(s, bf16, {4, hidden}, random),
                 b = filled(s, bf16, {4, hidden}, random);
    return call_in_place(s, {partial, a, b}, {filled(s, f32, {4, hidden}, random), filled(s, f32, {4, hidden}, random)},
                         [=](Out o) { engram::grad_w_reduce(s, partial, a, b, {o[0], o[1]}); });
}

}  // namespace

std::vector<PublicCall> engram_calls() {
    return {
        {"engram::fused_weight", engram_weight},
        {"engram::hash", engram_hash},
        {"engram::gate_forward", engram_gate},
        {"engram::gate_backward", engram_gate_backward},
        {"engram::grad_w_reduce", engram_weight_gradients},
    };
}

}  // namespace tessera::test
