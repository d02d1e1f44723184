#include <fmt/format.h>

#include "dsl/base/error.hpp"
#include "kernels/mhc/norm_arguments.hpp"
#include "kernels/mhc/norm_kernels.hpp"
#include "kernels/mhc/sinkhorn_tile.hpp"

namespace tessera::mhc {

namespace {

constexpr const char* function = "mhc_pre_big_fuse";

struct Checked {
    ResidualRows residual;
    std::int64_t splits;
    PreInputs in;
    PreOptions options;
};
Checked check(const Stream& stream, const PreInputs& in, const PreOptions& o) {
    const ResidualRows r = residual_rows(function, "residual", stream, in.residual);
    const std::int64_t columns = r.m * (r.m + 2);
    if (weight_rows(function, "fn", stream, in.fn, r.inner) != columns)
        throw UsageError(fmt::format("{}: fn has {} rows, but {} streams have {} mixes, m · (m + 2)", function,
                                     in.fn.extents[0], r.m, columns));
    parameter(function, "scale", stream, in.scale, f32, {3});
    parameter(function, "base", stream, in.base, f32, {columns});
    check_eps(function, "norm_eps", o.norm_eps);
    check_eps(function, "pre_eps", o.pre_eps);
    check_eps(function, "sinkhorn_eps", o.sinkhorn_eps);
    check_repeat(function, o.repeat);
    return {r, checked_splits(function, stream, o.splits, r), in, o};
}

void launch(const Stream& stream, const Checked& c, const Pre<TensorView>& out) {
    const ResidualRows& r = c.residual;
    const Pre<TensorView> to{per_token(function, "out.post", stream, out.post, f32, r.tokens, {r.m}),
                             per_token(function, "out.comb", stream, out.comb, f32, r.tokens, {r.m, r.m}),
                             per_token(function, "out.u", stream, out.u, bf16, r.tokens, {r.h})};
    check_aligned(function, "out.u", to.u);
    if (r.tokens == 0) return;
    const SplitProducts parts(stream, c.splits, r.tokens, c.in.fn.extents[0]);
    launch_norm_product(stream, r.rows, c.in.fn, false, parts);
    launch_pre_mix(stream, parts, r.rows, c.in, to, c.options);
}

}  // namespace

void pre_big_fuse(const Stream& stream, const PreInputs& inputs, const Pre<TensorView>& out,
                  const PreOptions& options) {
    launch(stream, check(stream, inputs, options), out);
}

Pre<Tensor> pre_big_fuse(const Stream& stream, const PreInputs& inputs, const PreOptions& options) {
    const Checked c = check(stream, inputs, options);
    const Shape& leading = inputs.residual.extents;
    const std::int64_t m = c.residual.m;
    Pre<Tensor> out{Tensor::empty(stream, f32, with_tail(leading, 2, {m})),
                    Tensor::empty(stream, f32, with_tail(leading, 2, {m, m})),
                    Tensor::empty(stream, bf16, with_tail(leading, 2, {c.residual.h}))};
    launch(stream, c, {out.post, out.comb, out.u});
    return out;
}

}  // namespace tessera::mhc
