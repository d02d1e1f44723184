#include <cmath>
#include <cstring>
#include <exception>
#include <fmt/core.h>
#include <tessera/engram.hpp>

#include "reference/engram.hpp"
#include "tests/support/kernels/engram_check.hpp"
#include "tests/support/kernels/guarded.hpp"
#include "tests/support/random.hpp"
#include "tests/support/reference/formats.hpp"

namespace tessera::test {

namespace {

using Bytes = std::vector<std::uint8_t>;
using Bf16 = std::vector<std::uint16_t>;

template <class T>
Bytes bytes_of(const std::vector<T>& values) {
    Bytes bytes(values.size() * sizeof(T));
    if (!bytes.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
    return bytes;
}
template <class T>
std::vector<T> values_of(const Bytes& bytes) {
    std::vector<T> values(bytes.size() / sizeof(T));
    if (!values.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
    return values;
}
std::vector<double> doubles(const Bf16& values) {
    std::vector<double> result;
    for (const std::uint16_t v : values) result.push_back(reference::bf16_value(v));
    return result;
}
std::vector<double> doubles(const std::vector<float>& values) { return {values.begin(), values.end()}; }

/// Dense inputs: plain rows, tiny ones if the case wants them, rows of zeros.
struct Inputs {
    Bf16 x, k, v, go;
    std::vector<float> w;

    explicit Inputs(const EngramGateCase& c) {
        Random random(c.seed + 1000);
        const auto number = [&] { return static_cast<float>(random.unit() + random.unit() + random.unit() * 2 - 2); };
        for (std::int64_t row = 0; row < c.tokens * c.heads; ++row) {
            const float scale = random.one_in(9) ? 0.0f : c.tiny_rows && row % 2 == 1 ? 0x1p-33f : 1.0f;
            for (std::int64_t d = 0; d < c.hidden; ++d) {
                x.push_back(reference::bf16_nearest(scale * number()));
                k.push_back(reference::bf16_nearest((c.tiny_rows && row % 2 == 1 ? 0x1p-33f : 1.0f) * number()));
                go.push_back(reference::bf16_nearest(number()));
            }
        }
        for (std::int64_t i = 0; i < c.tokens * c.hidden; ++i) v.push_back(reference::bf16_nearest(number()));
        for (std::int64_t i = 0; i < c.heads * c.hidden; ++i)
            w.push_back(reference::bf16_value(reference::bf16_nearest(number())) *
                        reference::bf16_value(reference::bf16_nearest(number())));
    }
};

/// Rows of `hidden` elements, `hidden` + `gap` apart; what lies between is NaN.
Bytes spread(const Bf16& dense, std::int64_t hidden, std::int64_t gap) {
    const auto h = static_cast<std::size_t>(hidden), pitch = static_cast<std::size_t>(hidden + gap);
    Bf16 rows(dense.size() / h * pitch, 0x7FFF);
    for (std::size_t i = 0; i < dense.size(); ++i) rows[i / h * pitch + i % h] = dense[i];
    return bytes_of(rows);
}

std::string judge(const char* what, const reference::Judged& expected, const std::vector<double>& got, bool bf16) {
    if (got.size() != expected.exact.size()) return fmt::format("{} has {} values", what, got.size());
    for (std::size_t i = 0; i < got.size(); ++i)
        if (!expected.admits(i, got[i], bf16))
            return fmt::format("{}[{}] is {}, the reference has {} ± {}", what, i, got[i], expected.exact[i],
                               expected.limit[i]);
    return "";
}

struct Scores {
    std::vector<float> dot, gate, rx, rk;
};

std::string judge_forward(const EngramGateCase& c, const Inputs& in, const reference::EngramGate& gate,
                          const Scores& saved, const Bf16& output) {
    const reference::EngramForward f = reference::engram_forward(gate);
    std::string wrong = judge("dot", f.dot, doubles(saved.dot), false);
    if (wrong.empty()) wrong = judge("rstd_x", f.rstd_x, doubles(saved.rx), false);
    if (wrong.empty()) wrong = judge("rstd_k", f.rstd_k, doubles(saved.rk), false);
    for (std::size_t i = 0; wrong.empty() && i < saved.gate.size(); ++i) {
        const double exact = reference::engram_gate_of(saved.dot[i], saved.rx[i], saved.rk[i], c.hidden, c.clamp);
        if (!(std::fabs(saved.gate[i] - exact) <= 0x1p-22))
            wrong = fmt::format("gate_score[{}] is {}, the reference has {}", i, saved.gate[i], exact);
    }
    const auto h = static_cast<std::size_t>(c.hidden), heads = static_cast<std::size_t>(c.heads);
    for (std::size_t i = 0; wrong.empty() && i < output.size(); ++i) {
        const std::size_t row = i / h;
        const float product = saved.gate[row] * reference::bf16_value(in.v[row / heads * h + i % h]);
        const std::uint16_t expected = reference::bf16_nearest(reference::bf16_value(in.x[i]) + product);
        if (output[i] != expected)
            wrong = fmt::format("output[{}] is {:04x}, the reference has {:04x}", i, output[i], expected);
    }
    return wrong;
}

/// The rows of the partial gradient, summed.
std::vector<double> summed(const std::vector<float>& partial, std::size_t columns) {
    std::vector<double> sum(columns);
    for (std::size_t i = 0; i < partial.size(); ++i) sum[i % columns] += partial[i];
    return sum;
}

class Run {
public:
    Run(const Device& device, const EngramGateCase& c)
        : c_(c),
          in_(c),
          stream_(device.stream()),
          x_(stream_, bytes_of(in_.x), 2 * c.shift),
          k_(stream_, spread(in_.k, c.hidden, c.gap), 2 * c.shift),
          v_(stream_, spread(in_.v, c.hidden, c.gap), 2 * c.shift),
          go_(stream_, bytes_of(in_.go), 2 * c.shift),
          w_(stream_, bytes_of(in_.w), 4 * c.shift) {}

    std::string check() {
        std::string wrong = forward();
        return wrong.empty() ? backward() : wrong;
    }

private:
    Shape rows() const { return {c_.tokens, c_.heads, c_.hidden}; }
    Shape dense() const { return {c_.heads * c_.hidden, c_.hidden, 1}; }
    engram::GateInputs inputs() const {
        const std::int64_t pitch = c_.hidden + c_.gap;
        return {x_.view(bf16, rows(), dense()), k_.view(bf16, rows(), {c_.heads * pitch, pitch, 1}),
                v_.view(bf16, {c_.tokens, c_.hidden}, {pitch, 1}), w_.view(f32, {c_.heads, c_.hidden}, {c_.hidden, 1})};
    }
    template <class T>
    std::vector<T> read(const TensorView& view) const {
        const Tensor here = Tensor::adopt(view, nullptr).to_host(stream_);
        return {here.as<const T>(), here.as<const T>() + here.count()};
    }
    reference::EngramGate reference_gate() const {
        return {c_.tokens,      c_.heads,       c_.hidden, doubles(in_.x), doubles(in_.k),
                doubles(in_.v), doubles(in_.w), c_.eps,    c_.clamp};
    }

    std::string forward() {
        const engram::GateOptions options{c_.eps, c_.clamp, true};
        saved_ = engram::gate_forward(stream_, inputs(), options);
        const Guarded out(stream_, c_.tokens * c_.heads * c_.hidden * 2, 2 * c_.shift);
        engram::gate_forward(stream_, inputs(), engram::GateOutputViews{out.view(bf16, rows(), dense())},
                             {c_.eps, c_.clamp, false});
        stream_.synchronize();
        const auto output = read<std::uint16_t>(saved_.output);
        if (values_of<std::uint16_t>(out.read(stream_)) != output) return "without save the output has other bits";
        scores_ = {read<float>(saved_.dot), read<float>(saved_.gate_score), read<float>(saved_.rstd_x),
                   read<float>(saved_.rstd_k)};
        return judge_forward(c_, in_, reference_gate(), scores_, output);
    }

    std::string backward() {
        const engram::BackwardInputs in{
            go_.view(bf16, rows(), dense()), inputs(), saved_.dot, saved_.gate_score, saved_.rstd_x, saved_.rstd_k};
        const engram::BackwardOptions options{c_.clamp, c_.blocks};
        const auto given = engram::gate_backward(stream_, in, options);
        const std::int64_t values = c_.tokens * c_.heads * c_.hidden;
        const Guarded gx(stream_, 2 * values, 2 * c_.shift), gk(stream_, 2 * values, 2 * c_.shift);
        const Guarded gv(stream_, c_.tokens * c_.hidden * 2, 2 * c_.shift);
        const Guarded gw(stream_, c_.blocks * c_.heads * c_.hidden * 4, 4 * c_.shift);
        engram::gate_backward(
            stream_, in,
            engram::BackwardOutputViews{gx.view(bf16, rows(), dense()), gk.view(bf16, rows(), dense()),
                                        gv.view(bf16, {c_.tokens, c_.hidden}, {c_.hidden, 1}),
                                        gw.view(f32, {c_.blocks, c_.heads, c_.hidden}, dense())},
            {c_.clamp, 0});
        stream_.synchronize();
        const auto x = values_of<std::uint16_t>(gx.read(stream_)), k = values_of<std::uint16_t>(gk.read(stream_));
        const auto v = values_of<std::uint16_t>(gv.read(stream_));
        const auto w = values_of<float>(gw.read(stream_));
        // One specialisation may take wide and the other narrow vectors: then sums have other orders.
        const bool same = c_.shift == 0;
        if (same &&
            (x != read<std::uint16_t>(given.grad_hidden_states) || k != read<std::uint16_t>(given.grad_k) ||
             v != read<std::uint16_t>(given.grad_v) || gw.read(stream_) != bytes_of(read<float>(given.grad_w_partial))))
            return "two runs of the backward differ";
        const auto g = reference::engram_backward(reference_gate(), doubles(in_.go),
                                                  {scores_.dot, scores_.gate, scores_.rx, scores_.rk});
        for (const bool undecided : g.undecided)
            if (undecided) return "";
        std::string wrong = judge("grad_hidden_states", g.x, doubles(x), true);
        if (wrong.empty()) wrong = judge("grad_k", g.k, doubles(k), true);
        if (wrong.empty()) wrong = judge("grad_v", g.v, doubles(v), true);
        const auto columns = static_cast<std::size_t>(c_.heads * c_.hidden);
        if (wrong.empty()) wrong = judge("grad_w", g.w, summed(w, columns), false);
        if (wrong.empty())
            wrong = judge("returned grad_w", g.w, summed(read<float>(given.grad_w_partial), columns), false);
        if (wrong.empty() && (x_.read(stream_) != bytes_of(in_.x) || go_.read(stream_) != bytes_of(in_.go)))
            wrong = "an input has changed";
        return wrong;
    }

    const EngramGateCase& c_;
    Inputs in_;
    Stream stream_;
    Guarded x_, k_, v_, go_, w_;
    engram::GateOutputs saved_;
    Scores scores_;
};

}  // namespace

std::string check_engram_gate(const Device& device, const EngramGateCase& c) {
    try {
        const std::string wrong = Run(device, c).check();
        return wrong.empty() ? "" : c.text() + ": " + wrong;
    } catch (const std::exception& error) {
        return c.text() + ": " + error.what();
    }
}

}  // namespace tessera::test
