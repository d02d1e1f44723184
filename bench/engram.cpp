#include "kernels/engram.hpp"

#include <fmt/format.h>
#include <memory>

#include "bench/case.hpp"
#include "bench/inputs.hpp"

namespace tessera::bench {

namespace {

constexpr std::int64_t tokens = 8001, heads = 4, hidden = 7168;

/// launch(set i mod count) over sets that make(i) gives.
template <class Make, class Launch>
std::function<void(int)> rotating(int count, Make make, Launch launch) {
    auto sets = std::make_shared<std::vector<decltype(make(0u))>>();
    for (int i = 0; i < count; ++i) sets->push_back(make(static_cast<unsigned>(i)));
    return [sets, launch, count](int i) { launch((*sets)[static_cast<std::size_t>(i % count)]); };
}

/// What goes through the gate; packed: k and v are slices of one tensor.
struct GateSet {
    Tensor x, k, v, w, go, scores[4];
    TensorView k_view, v_view;
    Tensor out, grad_x, grad_k, grad_v, partial;

    GateSet(const Stream& s, unsigned seed, bool packed, bool backward) {
        x = random_tensor(s, bf16, {tokens, heads, hidden}, seed);
        w = random_tensor(s, f32, {heads, hidden}, seed + 1);
        if (packed) {
            k = random_tensor(s, bf16, {tokens, heads + 1, hidden}, seed + 2);
            k_view = k.view().slice(1, 0, heads);
            v_view = k.view().slice(1, heads, heads + 1);
            v_view.extents = {tokens, hidden}, v_view.strides = {(heads + 1) * hidden, 1};
        } else {
            k = random_tensor(s, bf16, {tokens, heads, hidden}, seed + 2);
            v = random_tensor(s, bf16, {tokens, hidden}, seed + 3);
            k_view = k, v_view = v;
        }
        for (Tensor& t : scores) t = Tensor::empty(s, f32, {tokens, heads});
        out = Tensor::empty(s, bf16, {tokens, heads, hidden});
        if (!backward) return;
        engram::gate_forward(s, inputs(), saving(), {});
        go = random_tensor(s, bf16, {tokens, heads, hidden}, seed + 4);
        grad_x = out, grad_k = Tensor::empty(s, bf16, {tokens, heads, hidden});
        grad_v = Tensor::empty(s, bf16, {tokens, hidden});
        partial = Tensor::empty(s, f32, {s.device().target().multiprocessors, heads, hidden});
    }
    engram::GateInputs inputs() const { return {x, k_view, v_view, w}; }
    engram::GateOutputViews saving() const { return {out, scores[0], scores[1], scores[2], scores[3]}; }
};

Case forward_case(const std::string& name, bool save, bool packed) {
    const std::int64_t values = tokens * heads * hidden;
    return {"engram_gate_fwd",
            name,
            6 * values + 2 * tokens * hidden + 4 * heads * hidden + (save ? 16 * tokens * heads : 0),
            [=](const Stream& s, int count) {
                return rotating(
                    count, [&](unsigned seed) { return GateSet(s, 8 * seed, packed, false); },
                    [=](const GateSet& t) {
                        engram::GateOptions options;
                        options.save = save;
                        engram::gate_forward(s, t.inputs(), t.saving(), options);
                    });
            },
            [=] { return engram::gate_forward_program(heads, hidden, save, true); },
            values};
}

Case backward_case(const std::string& name, bool packed) {
    const std::int64_t values = tokens * heads * hidden;
    return {"engram_gate_bwd",
            name,
            10 * values + 4 * tokens * hidden + 12 * heads * hidden + 16 * tokens * heads,
            [=](const Stream& s, int count) {
                return rotating(
                    count, [&](unsigned seed) { return GateSet(s, 8 * seed, packed, true); },
                    [=](const GateSet& t) {
                        engram::gate_backward(s, {t.go, t.inputs(), t.scores[0], t.scores[1], t.scores[2], t.scores[3]},
                                              engram::BackwardOutputViews{t.grad_x, t.grad_k, t.grad_v, t.partial});
                    });
            },
            [] { return engram::gate_backward_program(heads, hidden, true); },
            values};
}

Case weight_case() {
    constexpr std::int64_t count = heads * hidden;
    return {"fused_weight",
            fmt::format("hc={}, H={}", heads, hidden),
            8 * count,
            [](const Stream& s, int sets) {
                struct Set {
                    Tensor a, b, out;
                };
                return rotating(
                    sets,
                    [&](unsigned seed) {
                        return Set{random_tensor(s, bf16, {heads, hidden}, seed),
                                   random_tensor(s, bf16, {heads, hidden}, seed + 1),
                                   Tensor::empty(s, f32, {heads, hidden})};
                    },
                    [s](const Set& t) { engram::fused_weight(s, t.a, t.b, t.out); });
            },
            [] { return engram::fused_weight_program(true); },
            count};
}

Case reduce_case() {
    constexpr std::int64_t count = heads * hidden, rows = 132;
    return {"grad_w_reduce",
            fmt::format("H={}", hidden),
            rows * count * 4 + 12 * count,
            [](const Stream& s, int sets) {
                struct Set {
                    Tensor partial, a, b, grad_a, grad_b;
                };
                return rotating(
                    sets,
                    [&](unsigned seed) {
                        return Set{random_tensor(s, f32, {rows, heads, hidden}, seed),
                                   random_tensor(s, bf16, {heads, hidden}, seed + 1),
                                   random_tensor(s, bf16, {heads, hidden}, seed + 2),
                                   random_tensor(s, f32, {heads, hidden}, seed + 3),
                                   random_tensor(s, f32, {heads, hidden}, seed + 4)};
                    },
                    [s](const Set& t) { engram::grad_w_reduce(s, t.partial, t.a, t.b, {t.grad_a, t.grad_b}); });
            },
            [] { return engram::grad_w_reduce_program(rows, true); },
            rows * count};
}

/// Whole numbers of [low, high] in a fixed scatter.
template <class T>
Tensor numbers(const Stream& s, Element element, const Shape& extents, std::int64_t low, std::int64_t high,
               unsigned seed) {
    std::vector<T> values(static_cast<std::size_t>(extents.count()));
    std::uint64_t state = seed + 1;
    for (T& v : values) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        v = static_cast<T>(low + static_cast<std::int64_t>((state >> 33) % static_cast<std::uint64_t>(high - low + 1)));
    }
    return Tensor::from_host(s, element, extents, values.data());
}

Case hash_case() {
    constexpr std::int64_t layers = 2, columns = 3, tables = 8, width = (columns - 1) * tables;
    return {"engram_hash",
            fmt::format("layers={}, ngram={}, T={}, tables={}", layers, columns, tokens, tables),
            4 * tokens * columns + 8 * layers * columns + 8 * layers * width + 4 * layers * tokens * width,
            [](const Stream& s, int sets) {
                struct Set {
                    Tensor ids, multipliers, sizes, offsets, out;
                };
                return rotating(
                    sets,
                    [&](unsigned seed) {
                        return Set{numbers<std::int32_t>(s, i32, {tokens, columns}, 0, 99'999, seed),
                                   numbers<std::int64_t>(s, i64, {layers, columns}, 0, 99'999, seed),
                                   numbers<std::int32_t>(s, i32, {layers, columns - 1, tables}, 100'000, 999'999, seed),
                                   numbers<std::int32_t>(s, i32, {layers, width}, 0, 10'000'000, seed),
                                   Tensor::empty(s, i32, {layers, tokens, width})};
                    },
                    [s](const Set& t) { engram::hash(s, {t.ids, t.multipliers, t.sizes, t.offsets}, t.out); });
            },
            [] { return engram::hash_program(columns, tables); },
            tokens * columns};
}

}  // namespace

std::vector<Case> engram_cases() {
    const std::string shape = fmt::format("hc={}, H={}, T={}", heads, hidden, tokens);
    const std::string packed = fmt::format("T={}, hc={}, H={}", tokens, heads, hidden);
    return {weight_case(),
            hash_case(),
            forward_case(shape + ", save=False", false, false),
            forward_case(shape + ", save=True", true, false),
            forward_case(packed + ", save=True (packed kv)", true, true),
            backward_case(shape, false),
            backward_case(packed + " (packed kv)", true),
            reduce_case()};
}

}  // namespace tessera::bench
