#include "kernels/swiglu.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <memory>

#include "bench/case.hpp"
#include "bench/inputs.hpp"

namespace tessera::bench {

namespace {

/// Rows that tokens are expanded to, expert by expert, each padded to a multiple of `align` rows, and the figures of
/// the reference's name for it.
struct Routing {
    std::int64_t rows, tokens, top_k, ranks, experts, align;
};

/// Which slot a row has; negative for padding.
std::vector<std::int32_t> slots_of(const Routing& r) {
    std::vector<std::int32_t> slots;
    const std::int64_t each = r.rows / r.experts, padding = r.align / 2, step = r.tokens * r.top_k / r.rows;
    for (std::int64_t row = 0; row < r.rows; ++row)
        slots.push_back(
            static_cast<std::int32_t>(row % each >= each - padding ? -1 : row * std::max<std::int64_t>(1, step)));
    for (std::int32_t& s : slots)
        if (s >= r.tokens * r.top_k) s = -1;
    return slots;
}

std::vector<std::int32_t> rows_of(const Routing& r) {
    std::vector<std::int32_t> rows(static_cast<std::size_t>(r.tokens * r.top_k), -1);
    const std::vector<std::int32_t> slots = slots_of(r);
    for (std::size_t row = 0; row < slots.size(); ++row)
        if (slots[row] >= 0) rows[static_cast<std::size_t>(slots[row])] = static_cast<std::int32_t>(row);
    return rows;
}

Tensor uploaded(const Stream& stream, const std::vector<std::int32_t>& values, const Shape& extents) {
    return Tensor::from_host(stream, i32, extents, values.data());
}

struct Forward {
    Routing routing;
    std::int64_t half;
    bool experts;
    swiglu::ForwardOptions options;
};

Case forward_case(const std::string& name, const Forward& f) {
    const std::int64_t n = f.routing.rows, groups = f.half / 128;
    const bool packed = f.options.scale_layout == quant::ScaleLayout::packed_ue8m0;
    const std::int64_t scales = n * 4 * (packed ? (groups + 3) / 4 : groups);
    const bool count = f.options.swiglu_clamp_value.has_value();
    return {
        "swiglu_forward_and_per_token_cast",
        name,
        n * 5 * f.half + scales,
        [=](const Stream& stream, int sets) -> std::function<void(int)> {
            struct Set {
                Tensor x, experts, count;
                quant::Quantized out;
                swiglu::ForwardMaps maps;
            };
            auto all = std::make_shared<std::vector<Set>>();
            for (int i = 0; i < sets; ++i) {
                Set s;
                s.x = random_tensor(stream, bf16, {n, 2 * f.half}, static_cast<unsigned>(i));
                if (f.experts) {
                    s.experts = uploaded(stream, slots_of(f.routing), {n});
                    s.maps.pos_to_expert = s.experts;
                }
                if (count) {
                    s.count = Tensor::zeros(stream, i64, {3});
                    s.maps.clamped_count = s.count;
                }
                s.out = swiglu::forward_and_per_token_cast(stream, s.x, f.options, s.maps);
                all->push_back(std::move(s));
            }
            return [=](int i) {
                const Set& s = (*all)[static_cast<std::size_t>(i % sets)];
                swiglu::forward_and_per_token_cast(stream, s.x, s.out.data, s.out.sf, f.options, s.maps);
            };
        },
        [=] { return swiglu::forward_and_per_token_cast_program(bf16, f.half, f.options, {false, f.experts, count}); },
        n* f.half};
}

struct Backward {
    Routing routing;
    std::int64_t half;
    swiglu::BackwardOptions options;
};

Case backward_case(const std::string& name, const Backward& b) {
    const std::int64_t n = b.routing.rows, g = b.options.num_per_channels, slots = b.routing.tokens * b.routing.top_k;
    return {"swiglu_backward_and_per_token_cast",
            name,
            n * (12 * b.half + 16 * (b.half / g) + 4) + slots * 12,
            [=](const Stream& stream, int sets) -> std::function<void(int)> {
                struct Set {
                    quant::Quantized x;
                    Tensor grad, weight, slot, row;
                    swiglu::BackwardOutputs<Tensor> out;
                    swiglu::BackwardInputs inputs() const { return {x.data, x.sf, grad, weight, slot, row}; }
                };
                auto all = std::make_shared<std::vector<Set>>();
                const Shape table{b.routing.tokens, b.routing.top_k};
                for (int i = 0; i < sets; ++i) {
                    Set s;
                    const auto seed = static_cast<unsigned>(4 * i);
                    s.x = quant::per_token_cast(stream, random_tensor(stream, bf16, {n, 2 * b.half}, seed), {e4m3, g});
                    s.grad = random_tensor(stream, bf16, {n, b.half}, seed + 1);
                    s.weight = random_tensor(stream, f32, table, seed + 2);
                    s.slot = uploaded(stream, slots_of(b.routing), {n});
                    s.row = uploaded(stream, rows_of(b.routing), table);
                    s.out = swiglu::backward_and_per_token_cast(stream, s.inputs(), b.options);
                    all->push_back(std::move(s));
                }
                return [=](int i) {
                    const Set& s = (*all)[static_cast<std::size_t>(i % sets)];
                    swiglu::backward_and_per_token_cast(
                        stream, s.inputs(),
                        swiglu::BackwardOutputs<TensorView>{s.out.out, s.out.x_grad_q, s.out.x_grad_sf, s.out.x_grad,
                                                            s.out.weight_grad},
                        b.options);
                };
            },
            [=] { return swiglu::backward_and_per_token_cast_program(b.half, b.options); },
            n* b.half};
}

std::string routing_text(const Routing& r) { return fmt::format("ranks={}, E/rank={}", r.ranks, r.experts); }
std::string clamp_text(const std::optional<float>& clamp) { return clamp ? fmt::format(", clamp={}", *clamp) : ""; }

}  // namespace

std::vector<Case> swiglu_cases() {
    std::vector<Case> cases;
    const quant::ScaleLayout packed = quant::ScaleLayout::packed_ue8m0;
    const Forward forward[] = {
        {{36608, 23331, 9, 8, 9, 16}, 2048, false, {128, packed, true, {}, {}}},
        {{25680, 18470, 6, 8, 32, 16}, 3072, false, {128, packed, true, 0.5f, {}}},
        {{8656, 8083, 2, 8, 9, 16}, 1024, true, {128, packed, true, {}, {}}},
        {{33872, 21851, 8, 8, 32, 16}, 1280, true, {128, packed, true, {}, {}}},
        {{9984, 9880, 2, 64, 4, 16}, 1536, true, {128, packed, true, 0.5f, {}}},
    };
    cases.push_back(
        forward_case("N=32768, H=2048, group=128, no maps", {{32768, 32768, 1, 1, 1, 16}, 2048, false, {}}));
    for (const Forward& f : forward)
        cases.push_back(forward_case(
            fmt::format(
                "pos_to_expert={}, H={}, {}, group=128, T={}, k={}, pow2=True{}, packed=True, with_weights=False",
                f.experts ? "True" : "False", f.half, routing_text(f.routing), f.routing.tokens, f.routing.top_k,
                clamp_text(f.options.swiglu_clamp_value)),
            f));
    const Backward backward[] = {
        {{9984, 9874, 2, 64, 4, 32}, 7168, {32, true, 0.5f}}, {{28160, 18525, 6, 8, 32, 128}, 7168, {128, true, 0.5f}},
        {{34400, 22035, 8, 8, 32, 32}, 7168, {32, true, {}}}, {{37376, 23308, 9, 8, 9, 128}, 7168, {128, true, {}}},
        {{8480, 7842, 2, 8, 9, 32}, 7168, {32, true, {}}},
    };
    for (const Backward& b : backward)
        cases.push_back(backward_case(fmt::format("H={}, {}, group={}, T={}, k={}, pow2=True{}", b.half,
                                                  routing_text(b.routing), b.options.num_per_channels, b.routing.tokens,
                                                  b.routing.top_k, clamp_text(b.options.swiglu_clamp_value)),
                                      b));
    return cases;
}

}  // namespace tessera::bench
