#include <catch2/catch.hpp>
#include <tessera/modeling.hpp>

#include "dsl/base/error.hpp"
#include "reference/engram.hpp"
#include "tests/support/random.hpp"
#include "tests/support/reference/formats.hpp"

// The layer against the reference: leading axes, slices, gradients that add up.

using namespace tessera;

namespace {

const Device host = Device::host();

std::vector<std::uint16_t> random_codes(test::Random& random, std::int64_t count) {
    std::vector<std::uint16_t> codes;
    for (std::int64_t i = 0; i < count; ++i)
        codes.push_back(reference::bf16_nearest(static_cast<float>(4 * random.unit() - 2)));
    return codes;
}
Tensor tensor(const std::vector<std::uint16_t>& codes, const Shape& extents) {
    return Tensor::from_host(host, bf16, extents, codes.data());
}
/// What a view of BF16 holds, in logical order.
std::vector<double> numbers(const TensorView& view) {
    const Tensor dense = Tensor::empty(host, bf16, view.extents);
    copy(host.stream(), dense, view);
    std::vector<double> result;
    for (std::int64_t i = 0; i < dense.count(); ++i)
        result.push_back(reference::bf16_value(dense.as<const std::uint16_t>()[i]));
    return result;
}

/// k and v of [lead…, heads, hidden] as slices of one tensor with heads + 1 rows.
struct Slices {
    Tensor all;
    TensorView k, v;
    Slices(test::Random& random, const Shape& lead, std::int64_t heads, std::int64_t hidden) {
        Shape extents = lead;
        extents.push_back(heads + 1), extents.push_back(hidden);
        all = tensor(random_codes(random, extents.count()), extents);
        const int axis = lead.rank();
        k = all.view().slice(axis, 0, heads);
        v = all.view().slice(axis, heads, heads + 1);
        Shape strides;
        for (int i = 0; i < axis; ++i) strides.push_back(v.strides[i]);
        strides.push_back(1);
        v.extents = lead, v.extents.push_back(hidden), v.strides = strides;
    }
};

void check_layer(const Shape& lead, std::int64_t heads, std::int64_t hidden, std::uint64_t seed) {
    test::Random random(seed);
    const Stream stream = host.stream();
    Shape shape = lead;
    shape.push_back(heads), shape.push_back(hidden);
    const Tensor by_hidden = tensor(random_codes(random, heads * hidden), {heads, hidden});
    const Tensor by_embed = tensor(random_codes(random, heads * hidden), {heads, hidden});
    const Tensor x = tensor(random_codes(random, shape.count()), shape);
    const Tensor go = tensor(random_codes(random, shape.count()), shape);
    const Slices kv(random, lead, heads, hidden);
    modeling::EngramGateOptions options;
    options.blocks = 5;
    modeling::EngramGate gate(stream, by_hidden, by_embed, options);
    modeling::EngramGate::Saved saved;
    const Tensor output = gate.forward(stream, x, kv.k, kv.v, saved);
    CHECK(output.extents() == shape);
    CHECK(numbers(gate.forward(stream, x, kv.k, kv.v)) == numbers(output));
    const auto grads = gate.backward(stream, go, saved);
    CHECK(grads.k.extents() == shape);
    gate.backward(stream, go, saved);  // a second micro-batch of the same data

    reference::EngramGate in{lead.count(), heads, hidden, numbers(x), numbers(kv.k), numbers(kv.v), {}, 1e-20f, 1e-6f};
    const auto wh = numbers(by_hidden), we = numbers(by_embed);
    for (std::size_t i = 0; i < wh.size(); ++i) in.w.push_back(wh[i] * we[i]);
    const auto f = reference::engram_forward(in);
    // The backward is judged from what the forward has saved: near dot = 0 the gate is steep, and the exact one says
    // less.
    const auto floats = [](const Tensor& t) {
        return std::vector<float>(t.as<const float>(), t.as<const float>() + t.count());
    };
    const engram::GateOutputs& s = saved.scores;
    const auto g = reference::engram_backward(
        in, numbers(go), {floats(s.dot), floats(s.gate_score), floats(s.rstd_x), floats(s.rstd_k)});
    const auto check = [](const reference::Judged& expected, const std::vector<double>& got) {
        REQUIRE(got.size() == expected.exact.size());
        for (std::size_t i = 0; i < got.size(); ++i) CHECK(expected.admits(i, got[i], true));
    };
    check(f.output, numbers(output));
    check(g.x, numbers(grads.hidden_states));
    check(g.k, numbers(grads.k));
    check(g.v, numbers(grads.v));
    for (std::size_t i = 0; i < wh.size(); ++i) {
        const double limit = 16 * g.w.limit[i];
        CHECK(gate.grad_hidden().as<const float>()[i] == Approx(2 * g.w.exact[i] * we[i]).margin(limit * 2));
        CHECK(gate.grad_embed().as<const float>()[i] == Approx(2 * g.w.exact[i] * wh[i]).margin(limit * 2));
    }
    gate.zero_gradients(stream);
    CHECK(gate.grad_embed().as<const float>()[0] == 0.0f);
}

}  // namespace

TEST_CASE("EngramGate agrees with the reference, whatever its leading axes", "[modeling]") {
    check_layer({1}, 4, 64, 1);
    check_layer({2}, 3, 40, 2);
    check_layer({2, 3}, 4, 72, 3);
    check_layer({3, 1, 2}, 1, 33, 4);
}

TEST_CASE("EngramGate of no tokens", "[modeling]") {
    test::Random random(5);
    const Tensor w = tensor(random_codes(random, 16), {2, 8});
    modeling::EngramGate gate(host.stream(), w, w);
    const auto none = [](const Shape& s) { return Tensor::empty(host, bf16, s); };
    modeling::EngramGate::Saved saved;
    CHECK(gate.forward(host.stream(), none({0, 2, 8}), none({0, 2, 8}), none({0, 8}), saved).extents() ==
          Shape{0, 2, 8});
    CHECK(gate.backward(host.stream(), none({0, 2, 8}), saved).v.extents() == Shape{0, 8});
    CHECK(gate.grad_hidden().as<const float>()[15] == 0.0f);
}

TEST_CASE("EngramGate refuses what does not fit", "[modeling]") {
    test::Random random(6);
    const Tensor w = tensor(random_codes(random, 16), {2, 8}), x = tensor(random_codes(random, 32), {2, 2, 8});
    const Stream stream = host.stream();
    CHECK_THROWS_AS(modeling::EngramGate(stream, w, x), UsageError);
    const modeling::EngramGate gate(stream, w, w);
    CHECK_THROWS_AS(gate.forward(stream, x, x, w.view().slice(0, 0, 1)), UsageError);
    const Tensor wide = tensor(random_codes(random, 2 * 3 * 16), {2, 3, 2, 8});
    const TensorView gap = wide.view().slice(1, 0, 2);  // the leading axes do not merge
    CHECK_THROWS_WITH(gate.forward(stream, gap, gap, tensor(random_codes(random, 32), {2, 2, 8})),
                      Catch::Contains("do not merge"));
}
