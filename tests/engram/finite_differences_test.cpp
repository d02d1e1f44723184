#include <catch2/catch.hpp>
#include <cmath>

#include "reference/engram.hpp"
#include "tests/support/random.hpp"

// The gradients that the kernels are judged by, against differences of the forward, both in double precision.

using namespace tessera;

namespace {

reference::EngramGate random_gate(std::uint64_t seed, std::int64_t heads, float clamp) {
    test::Random random(seed);
    reference::EngramGate gate{3, heads, 24, {}, {}, {}, {}, 1e-6f, clamp};
    const auto fill = [&](std::vector<double>& to, std::int64_t count) {
        for (std::int64_t i = 0; i < count; ++i) to.push_back(2 * random.unit() + 2 * random.unit() - 2);
    };
    fill(gate.x, 3 * heads * 24), fill(gate.k, 3 * heads * 24), fill(gate.v, 3 * 24), fill(gate.w, heads * 24);
    return gate;
}

double loss(const reference::EngramGate& gate, const std::vector<double>& grad_out) {
    const std::vector<double> output = reference::engram_forward(gate).output.exact;
    double sum = 0;
    for (std::size_t i = 0; i < output.size(); ++i) sum += output[i] * grad_out[i];
    return sum;
}

void check_differences(reference::EngramGate& gate, std::vector<double>& values, const std::vector<double>& gradient,
                       const std::vector<double>& grad_out) {
    REQUIRE(values.size() == gradient.size());
    for (std::size_t i = 0; i < values.size(); i += 5) {
        const double old = values[i], h = 1e-5;
        values[i] = old + h;
        const double above = loss(gate, grad_out);
        values[i] = old - h;
        const double below = loss(gate, grad_out);
        values[i] = old;
        CHECK(gradient[i] == Approx((above - below) / (2 * h)).epsilon(1e-5).margin(2e-6));
    }
}

}  // namespace

TEST_CASE("the reference's gradients are those of its forward", "[engram]") {
    for (std::uint64_t seed = 0; seed < 12; ++seed) {
        reference::EngramGate gate = random_gate(seed, seed % 2 == 0 ? 4 : 3, seed % 3 == 0 ? 0.2f : 1e-6f);
        test::Random random(seed + 100);
        std::vector<double> grad_out;
        for (std::size_t i = 0; i < gate.x.size(); ++i) grad_out.push_back(2 * random.unit() - 1);
        const reference::EngramForward f = reference::engram_forward(gate);
        const auto floats = [](const std::vector<double>& v) { return std::vector<float>(v.begin(), v.end()); };
        const reference::EngramGradients g = reference::engram_backward(
            gate, grad_out,
            {floats(f.dot.exact), floats(f.gate.exact), floats(f.rstd_x.exact), floats(f.rstd_k.exact)});
        check_differences(gate, gate.x, g.x.exact, grad_out);
        check_differences(gate, gate.k, g.k.exact, grad_out);
        check_differences(gate, gate.v, g.v.exact, grad_out);
        check_differences(gate, gate.w, g.w.exact, grad_out);
    }
}
