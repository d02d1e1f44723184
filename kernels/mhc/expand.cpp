#include <vector>

#include "kernels/mhc/arguments.hpp"
#include "kernels/mhc/columns.hpp"
#include "runtime/compiled_kernel.hpp"
#include "runtime/engine.hpp"

namespace tessera::mhc {

namespace {

constexpr const char* forward = "mhc_expand_forward";
constexpr const char* backward = "mhc_expand_backward";

void launch(KernelName name, Program (*program)(const StreamsForm&), const Stream& stream, const TensorView& from,
            const TensorView& to, std::int64_t streams) {
    if (from.extents[0] == 0) return;
    const StreamsForm form{streams, from.extents.back(), aligned({&from, &to})};
    Engine::of(stream)
        .kernel(stream, KernelId(name, {form.streams, form.hidden, form.aligned}), [&] { return program(form); })
        .launch(stream, {from, to});
}

}  // namespace

Program expand_forward_program(const StreamsForm& form) {
    return record(forward, [=](Kernel& k) {
        const Columns columns(form);
        const std::int64_t m = form.streams, h = form.hidden, width = columns.width();
        const Dim tokens = k.dim("tokens");
        const auto x = k.input<bf16>("x", {tokens, h}, columns.options());
        const auto out = k.output<bf16>("out", {tokens, m, h}, columns.options());
        k.threads(columns.threads());
        const auto [token, step] = k.grid(tokens, columns.steps());
        const auto v = load(x.block({1, width}, {token, step}));
        for (std::int64_t i = 0; i < m; ++i) store(out.block({1, 1, width}, {token, i, step}), v.unsqueeze(axis<1>));
    });
}

Program expand_backward_program(const StreamsForm& form) {
    return record(backward, [=](Kernel& k) {
        const Columns columns(form);
        const std::int64_t m = form.streams, h = form.hidden, width = columns.width();
        const Dim tokens = k.dim("tokens");
        const auto g = k.input<bf16>("g", {tokens, m, h}, columns.options());
        const auto dx = k.output<bf16>("dx", {tokens, h}, columns.options());
        k.threads(columns.threads());
        const auto [token, step] = k.grid(tokens, columns.steps());
        std::vector<Value<bf16, 2>> loaded;
        for (std::int64_t i = 0; i < m; ++i) loaded.push_back(load(g[token].block({1, width}, {i, step})));
        auto sum = 0.0f + cast<f32>(loaded[0]);
        for (std::size_t i = 1; i < loaded.size(); ++i) sum = sum + cast<f32>(loaded[i]);
        store(dx.block({1, width}, {token, step}), cast<bf16>(sum));
    });
}

void expand_forward(const Stream& stream, const TensorView& x, const TensorView& out) {
    const std::int64_t tokens = tokens_of(forward, "out", out, 2), m = out.extents[out.rank() - 2];
    check_streams(forward, m);
    const std::int64_t h = out.extents.back();
    check_hidden(forward, h);
    const TensorView from = per_token(forward, "x", stream, x, bf16, tokens, {h});
    launch(forward, expand_forward_program, stream, from, per_token(forward, "out", stream, out, bf16, tokens, {m, h}),
           m);
}

Tensor expand_forward(const Stream& stream, const TensorView& x, std::int64_t streams) {
    check_streams(forward, streams);
    const std::int64_t tokens = tokens_of(forward, "x", x, 1), h = x.extents.back();
    check_hidden(forward, h);
    const TensorView from = per_token(forward, "x", stream, x, bf16, tokens, {h});
    Tensor out = Tensor::empty(stream, bf16, with_tail(x.extents, 1, {streams, h}));
    launch(forward, expand_forward_program, stream, from,
           per_token(forward, "out", stream, out, bf16, tokens, {streams, h}), streams);
    return out;
}

void expand_backward(const Stream& stream, const TensorView& grad_out, const TensorView& grad_x) {
    const std::int64_t tokens = tokens_of(backward, "grad_out", grad_out, 2);
    const std::int64_t m = grad_out.extents[grad_out.rank() - 2], h = grad_out.extents.back();
    check_streams(backward, m);
    check_hidden(backward, h);
    const TensorView from = per_token(backward, "grad_out", stream, grad_out, bf16, tokens, {m, h});
    launch(backward, expand_backward_program, stream, from,
           per_token(backward, "grad_x", stream, grad_x, bf16, tokens, {h}), m);
}

Tensor expand_backward(const Stream& stream, const TensorView& grad_out) {
    const std::int64_t tokens = tokens_of(backward, "grad_out", grad_out, 2);
    const std::int64_t m = grad_out.extents[grad_out.rank() - 2], h = grad_out.extents.back();
    check_streams(backward, m);
    check_hidden(backward, h);
    const TensorView from = per_token(backward, "grad_out", stream, grad_out, bf16, tokens, {m, h});
    Tensor dx = Tensor::empty(stream, bf16, with_tail(grad_out.extents, 2, {h}));
    launch(backward, expand_backward_program, stream, from,
           per_token(backward, "grad_x", stream, dx, bf16, tokens, {h}), m);
    return dx;
}

}  // namespace tessera::mhc
