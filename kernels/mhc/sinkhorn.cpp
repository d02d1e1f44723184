#include <fmt/format.h>

#include "dsl/base/error.hpp"
#include "kernels/mhc/arguments.hpp"
#include "kernels/mhc/sinkhorn_tile.hpp"
#include "runtime/compiled_kernel.hpp"
#include "runtime/engine.hpp"

namespace tessera::mhc {

namespace {

constexpr const char* forward = "mhc_sinkhorn_forward";
constexpr const char* backward = "mhc_sinkhorn_backward";
constexpr const char* backward_any = "mhc_sinkhorn_backward_any_repeat";

/// Sums that a thread can keep in registers beside a row of its matrix; a whole matrix leaves no room.
constexpr std::int64_t most_kept = 60;

std::int64_t kept_repeat(const SinkhornForm& form, std::int64_t repeat) {
    if (!SinkhornTile(form).a_row_each()) return 0;
    return repeat * SinkhornTile(form).sums_per_repeat() <= most_kept ? repeat : 0;
}

/// The logits as (tokens, m, m).
TensorView check(const char* function, const Stream& stream, const TensorView& logits, const SinkhornOptions& o) {
    const std::int64_t tokens = tokens_of(function, "logits", logits, 2), m = logits.extents.back();
    check_streams(function, m);
    check_repeat(function, o.repeat);
    check_eps(function, "eps", o.eps);
    if (logits.extents[logits.rank() - 2] != m || logits.element != f32 || !logits.is_contiguous())
        throw UsageError(fmt::format("{}: logits are {} {} with strides {}, but must be dense f32 [..., m, m]",
                                     function, name_of(logits.element), text_of(logits.extents),
                                     text_of(logits.strides)));
    return per_token(function, "logits", stream, logits, f32, tokens, {m, m});
}

SinkhornForm form_of(const TensorView& x, const SinkhornOptions& o, bool all_aligned) {
    return {x.extents[1], bounded_sums(o.eps), all_aligned};
}

void launch_forward(const Stream& stream, const TensorView& x, const TensorView& y, const SinkhornOptions& o) {
    if (x.extents[0] == 0) return;
    const SinkhornForm form = form_of(x, o, aligned({&x, &y}));
    Engine::of(stream)
        .kernel(stream, KernelId(forward, {form.streams, form.bounded, form.aligned}),
                [&] { return sinkhorn_forward_program(form); })
        .launch(stream, {x, y}, {Scalar("repeat", o.repeat), Scalar("eps", o.eps)});
}

void launch_backward(const Stream& stream, const TensorView& x, const TensorView& g, const TensorView& dx,
                     const SinkhornOptions& o) {
    if (x.extents[0] == 0) return;
    const SinkhornForm form = form_of(x, o, aligned({&x, &g, &dx}));
    const std::int64_t repeat = kept_repeat(form, o.repeat), m = form.streams, tokens = x.extents[0];
    const CompiledKernel& kernel = Engine::of(stream).kernel(
        stream,
        KernelId(repeat > 0 ? KernelName(backward) : KernelName(backward_any), {m, form.bounded, form.aligned, repeat}),
        [&] { return sinkhorn_backward_program(form, repeat); });
    if (repeat > 0) return kernel.launch(stream, {x, g, dx}, {Scalar("eps", o.eps)});
    const Tensor column_sums = Tensor::empty(stream, f32, {o.repeat, tokens, 1, m});
    const Tensor row_sums = Tensor::empty(stream, f32, {o.repeat, tokens, m, 1});
    kernel.launch(stream, {x, g, dx, column_sums, row_sums}, {Scalar("eps", o.eps)});
}

}  // namespace

Program sinkhorn_forward_program(const SinkhornForm& form) {
    return record(forward, [=](Kernel& k) {
        const SinkhornTile tile(form);
        const std::int64_t m = form.streams;
        const Dim tokens = k.dim("tokens");
        const Index repeat = k.scalar<i64>("repeat");
        const auto eps = k.scalar<f32>("eps");
        const TensorOptions options{.align = form.aligned ? 16 : 4};
        const auto x = k.input<f32>("x", {tokens, m, m}, options);
        const auto out = k.output<f32>("y", {tokens, m, m}, options);
        k.threads(SinkhornTile::threads);
        const auto [block] = k.grid(ceil_div(tokens, tile.tokens()));
        store(tile.piece(out, block), tile.normalised(k, tile.loaded(x, block), repeat, eps));
    });
}

void sinkhorn_forward(const Stream& stream, const TensorView& logits, const TensorView& out,
                      const SinkhornOptions& options) {
    const TensorView x = check(forward, stream, logits, options);
    const std::int64_t m = x.extents[1];
    launch_forward(stream, x, per_token(forward, "out", stream, out, f32, x.extents[0], {m, m}), options);
}

Tensor sinkhorn_forward(const Stream& stream, const TensorView& logits, const SinkhornOptions& options) {
    const TensorView x = check(forward, stream, logits, options);
    Tensor out = Tensor::empty(stream, f32, logits.extents);
    launch_forward(stream, x, per_token(forward, "out", stream, out, f32, x.extents[0], {x.extents[1], x.extents[1]}),
                   options);
    return out;
}

void sinkhorn_backward(const Stream& stream, const TensorView& logits, const TensorView& grad_out,
                       const TensorView& grad_logits, const SinkhornOptions& options) {
    const TensorView x = check(backward, stream, logits, options);
    const std::int64_t tokens = x.extents[0], m = x.extents[1];
    const TensorView g = per_token(backward, "grad_out", stream, grad_out, f32, tokens, {m, m});
    launch_backward(stream, x, g, per_token(backward, "grad_logits", stream, grad_logits, f32, tokens, {m, m}),
                    options);
}

Tensor sinkhorn_backward(const Stream& stream, const TensorView& logits, const TensorView& grad_out,
                         const SinkhornOptions& options) {
    const TensorView x = check(backward, stream, logits, options);
    const std::int64_t tokens = x.extents[0], m = x.extents[1];
    const TensorView g = per_token(backward, "grad_out", stream, grad_out, f32, tokens, {m, m});
    Tensor dx = Tensor::empty(stream, f32, logits.extents);
    launch_backward(stream, x, g, per_token(backward, "grad_logits", stream, dx, f32, tokens, {m, m}), options);
    return dx;
}

}  // namespace tessera::mhc
