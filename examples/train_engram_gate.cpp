// Trains the two norm weights of an Engram gate towards those of another gate: two micro-batches a step, whose
// gradients sum up in FP32, and Adam on FP32 copies of the weights. The first gradients are checked against finite
// differences.

#include <cmath>
#include <cstdio>
#include <cstring>
#include <exception>
#include <random>
#include <tessera/modeling.hpp>
#include <vector>

#include "usage.hpp"

using namespace tessera;

namespace {

constexpr std::int64_t tokens = 48, heads = 2, hidden = 128, weights = heads * hidden, values = tokens * weights;
constexpr int steps = 60, batches = 2;

std::uint16_t to_bf16(float x) {
    std::uint32_t bits;
    std::memcpy(&bits, &x, sizeof bits);
    return static_cast<std::uint16_t>((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}
float from_bf16(std::uint16_t code) {
    const std::uint32_t bits = std::uint32_t{code} << 16;
    float x;
    std::memcpy(&x, &bits, sizeof x);
    return x;
}

/// Numbers that BF16 holds exactly.
std::vector<float> random_numbers(std::mt19937& random, std::int64_t count, float around = 0) {
    std::normal_distribution<float> normal(around, around == 0 ? 1.0f : 0.3f);
    std::vector<float> numbers(static_cast<std::size_t>(count));
    for (float& x : numbers) x = from_bf16(to_bf16(normal(random)));
    return numbers;
}

Tensor upload(const Stream& stream, const std::vector<float>& numbers, const Shape& extents) {
    std::vector<std::uint16_t> codes;
    for (const float x : numbers) codes.push_back(to_bf16(x));
    return Tensor::from_host(stream, bf16, extents, codes.data());
}
std::vector<float> download(const Stream& stream, const Tensor& t) {
    const Tensor here = t.to_host(stream);
    std::vector<float> numbers;
    for (std::int64_t i = 0; i < here.count(); ++i)
        numbers.push_back(t.element() == bf16 ? from_bf16(here.as<std::uint16_t>()[i]) : here.as<float>()[i]);
    return numbers;
}

struct Batch {
    std::vector<float> x, k, v, target;
};

/// ½ Σ (output − target)² of a batch, in double precision.
double exact_loss(const Batch& b, const std::vector<double>& by_hidden, const std::vector<double>& by_embed) {
    double loss = 0;
    for (std::int64_t row = 0; row < tokens * heads; ++row) {
        const auto first = static_cast<std::size_t>(row * hidden), w = static_cast<std::size_t>(row % heads * hidden);
        const auto v = static_cast<std::size_t>(row / heads * hidden);
        double xx = 0, kk = 0, dot = 0;
        for (std::size_t d = 0; d < hidden; ++d) {
            const double x = b.x[first + d], k = b.k[first + d];
            xx += x * x, kk += k * k, dot += x * by_hidden[w + d] * k * by_embed[w + d];
        }
        const double s = dot / std::sqrt(xx / hidden) / std::sqrt(kk / hidden) / std::sqrt(static_cast<double>(hidden));
        const double gate = 1 / (1 + std::exp(-std::copysign(std::sqrt(std::max(std::fabs(s), 1e-6)), s)));
        for (std::size_t d = 0; d < hidden; ++d) {
            const double off = b.x[first + d] + gate * b.v[v + d] - b.target[first + d];
            loss += off * off / 2;
        }
    }
    return loss;
}

/// Adam on one weight.
class Adam {
public:
    explicit Adam(std::vector<float> start) : w(std::move(start)), mean_(w.size()), square_(w.size()) {}
    void step(const std::vector<float>& gradient) {
        ++time_;
        for (std::size_t i = 0; i < w.size(); ++i) {
            mean_[i] += 0.1f * (gradient[i] - mean_[i]);
            square_[i] += 0.01f * (gradient[i] * gradient[i] - square_[i]);
            const float m = mean_[i] / (1 - std::pow(0.9f, time_)), s = square_[i] / (1 - std::pow(0.99f, time_));
            w[i] -= 0.02f * m / (std::sqrt(s) + 1e-8f);
        }
    }
    std::vector<float> w;

private:
    std::vector<float> mean_, square_;
    float time_ = 0;
};

/// Runs a batch forward and backward; its gradients are added to the gate's. Gives ½ Σ (output − target)².
double accumulate(const Stream& stream, modeling::EngramGate& gate, const Batch& b) {
    const Tensor x = upload(stream, b.x, {tokens, heads, hidden}), k = upload(stream, b.k, {tokens, heads, hidden});
    const Tensor v = upload(stream, b.v, {tokens, hidden});
    modeling::EngramGate::Saved saved;
    std::vector<float> off = download(stream, gate.forward(stream, x, k, v, saved));
    double loss = 0;
    for (std::size_t i = 0; i < off.size(); ++i) {
        off[i] -= b.target[i];
        loss += double{off[i]} * off[i] / 2;
    }
    gate.backward(stream, upload(stream, off, {tokens, heads, hidden}), saved);
    return loss;
}

/// Whether gradients agree with differences of the exact loss at some weights.
bool agree(const std::vector<Batch>& data, const std::vector<float>& by_hidden, const std::vector<float>& by_embed,
           const std::vector<float>& grad_hidden, const std::vector<float>& grad_embed) {
    std::vector<double> h(by_hidden.begin(), by_hidden.end()), e(by_embed.begin(), by_embed.end());
    double largest = 0, worst = 0;
    for (const float g : grad_hidden) largest = std::max(largest, std::fabs(double{g}));
    const auto loss = [&] {
        double sum = 0;
        for (const Batch& b : data) sum += exact_loss(b, h, e);
        return sum;
    };
    const auto compare = [&](double& weight, float gradient) {
        const double old = weight, step = 1e-4;
        weight = old + step;
        const double above = loss();
        weight = old - step;
        const double below = loss();
        weight = old;
        worst = std::max(worst, std::fabs(gradient - (above - below) / (2 * step)));
    };
    for (std::size_t i = 0; i < weights; i += 37) compare(h[i], grad_hidden[i]), compare(e[i], grad_embed[i]);
    std::printf("gradients differ from finite differences by at most %.2g of the largest\n", worst / largest);
    return worst <= 0.02 * largest;
}

}  // namespace

int main(int argc, char** argv) try {
    if (const auto code =
            answer(argc, argv,
                   "train_engram_gate   (trains an Engram gate, on the GPU or else on the host; takes no arguments)"))
        return *code;
    const Device device = Device::best();
    const Stream stream = device.stream();
    std::mt19937 random(7);
    const std::vector<float> goal_hidden = random_numbers(random, weights, 1),
                             goal_embed = random_numbers(random, weights, 1);
    const modeling::EngramGate goal(stream, upload(stream, goal_hidden, {heads, hidden}),
                                    upload(stream, goal_embed, {heads, hidden}));
    std::vector<Batch> data;
    for (int i = 0; i < batches; ++i) {
        Batch b{random_numbers(random, values), {}, random_numbers(random, tokens * hidden), {}};
        b.k = random_numbers(random, values);
        for (std::size_t j = 0; j < b.k.size(); ++j) b.k[j] = from_bf16(to_bf16(b.k[j] + 0.1f * b.x[j]));
        const Tensor x = upload(stream, b.x, {tokens, heads, hidden}), k = upload(stream, b.k, {tokens, heads, hidden});
        b.target = download(stream, goal.forward(stream, x, k, upload(stream, b.v, {tokens, hidden})));
        data.push_back(std::move(b));
    }

    Adam by_hidden(random_numbers(random, weights, 1)), by_embed(random_numbers(random, weights, 1));
    double first = 0, last = 0;
    for (int step = 0; step < steps; ++step) {
        modeling::EngramGate gate(stream, upload(stream, by_hidden.w, {heads, hidden}),
                                  upload(stream, by_embed.w, {heads, hidden}));
        last = 0;
        for (const Batch& b : data) last += accumulate(stream, gate, b);
        const std::vector<float> grad_hidden = download(stream, gate.grad_hidden());
        const std::vector<float> grad_embed = download(stream, gate.grad_embed());
        if (step == 0) {
            first = last;
            if (!agree(data, by_hidden.w, by_embed.w, grad_hidden, grad_embed)) return 1;
        }
        by_hidden.step(grad_hidden);
        by_embed.step(grad_embed);
    }
    std::printf("train_engram_gate on %s: the loss fell from %.4g to %.4g in %d steps\n", device.name().c_str(), first,
                last, steps);
    return last < first / 4 ? 0 : 1;
} catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
}
