#include <vector>

#include "kernels/mhc/sinkhorn_tile.hpp"

// With Y_k the matrix before normalisation k, S_k its sums + eps and G the gradient, walked from the last one on:
// G = (G − Σ G · Y_{k+1}) / S_k, as Y_k / S_k = Y_{k+1}; and Y_k = Y_{k+1} · S_k, so that only the sums are kept.

namespace tessera::mhc {

namespace {

using Matrix = Value<f32, 3>;

struct Parameters {
    Dim tokens;
    Value<f32, 0> eps;
    Global<f32, 3> x, g, dx;

    Parameters(Kernel& k, const SinkhornForm& form)
        : tokens(k.dim("tokens")),
          eps(k.scalar<f32>("eps")),
          x(detail::ViewSpec{}),
          g(detail::ViewSpec{}),
          dx(detail::ViewSpec{}) {
        const TensorOptions options{.align = form.aligned ? 16 : 4};
        const std::int64_t m = form.streams;
        x = k.input<f32>("x", {tokens, m, m}, options);
        g = k.input<f32>("g", {tokens, m, m}, options);
        dx = k.output<f32>("dx", {tokens, m, m}, options);
        k.threads(SinkhornTile::threads);
    }
};

/// The gradient of the softmax's input.
Matrix softmax_gradient(const Matrix& p, const Matrix& g) { return p * (g - SinkhornTile::row_sum(g * p)); }

/// All steps written out; the sums stay in registers.
Program kept_program(const SinkhornForm& form, std::int64_t repeat) {
    return record("mhc_sinkhorn_backward", [=](Kernel& k) {
        const SinkhornTile tile(form);
        const Parameters in(k, form);
        const auto [block] = k.grid(ceil_div(in.tokens, tile.tokens()));
        const Matrix p = tile.softmax(tile.loaded(in.x, block));
        Matrix g = tile.loaded(in.g, block);
        const auto sum = [&](std::int64_t step, const Matrix& v) {
            return step % 2 == 0 ? tile.column_sum(v) : tile.row_sum(v);
        };
        Matrix y = p + in.eps;
        std::vector<Matrix> sums;
        for (std::int64_t step = 0; step < 2 * repeat - 1; ++step) {
            sums.push_back(sum(step, y) + in.eps);
            y = tile.divide(y, sums.back());
        }
        for (std::int64_t step = 2 * repeat - 2; step >= 0; --step) {
            const Matrix& s = sums[static_cast<std::size_t>(step)];
            g = tile.divide(g - sum(step, g * y), s);
            if (step > 0) y = y * s;
        }
        store(tile.piece(in.dx, block), softmax_gradient(p, g));
    });
}

/// The sums lie in memory.
Program any_repeat_program(const SinkhornForm& form) {
    return record("mhc_sinkhorn_backward_any_repeat", [=](Kernel& k) {
        const SinkhornTile tile(form);
        const Parameters in(k, form);
        const std::int64_t m = form.streams, rows = tile.tokens();
        const Dim repeat = k.dim("repeat");
        const auto column_sums = k.inout<f32>("column_sums", {repeat, in.tokens, 1, m}, {.align = 16});
        const auto row_sums = k.inout<f32>("row_sums", {repeat, in.tokens, m, 1}, {.align = 16});
        const auto [block] = k.grid(ceil_div(in.tokens, rows));
        const auto columns = [&](const Index& i) { return column_sums[i].block({rows, 1, m}, {block, 0, 0}); };
        const auto rowwise = [&](const Index& i) { return row_sums[i].block({rows, m, 1}, {block, 0, 0}); };
        const Matrix p = tile.softmax(tile.loaded(in.x, block));
        auto y = k.variable(p + in.eps);
        auto g = k.variable(tile.loaded(in.g, block));
        const auto forward = [&](const Piece<f32, 3>& keep, const Matrix& sum) {
            const Matrix s = sum + in.eps;
            store(keep, s);
            y = tile.divide(y.get(), s);
        };
        forward(columns(Index(0)), tile.column_sum(y.get()));
        k.serial(repeat - 1, [&](Index i) {
            forward(rowwise(i), tile.row_sum(y.get()));
            forward(columns(i + 1), tile.column_sum(y.get()));
        });
        const auto back = [&](const Piece<f32, 3>& kept, auto&& sum) {
            const Matrix s = load(kept, 1.0f);
            g = tile.divide(g.get() - sum(g.get() * y.get()), s);
            y = y.get() * s;
        };
        k.serial(repeat - 1, [&](Index i) {
            back(columns(repeat - 1 - i), SinkhornTile::column_sum);
            back(rowwise(repeat - 2 - i), SinkhornTile::row_sum);
        });
        back(columns(Index(0)), SinkhornTile::column_sum);
        store(tile.piece(in.dx, block), softmax_gradient(p, g.get()));
    });
}

}  // namespace

Program sinkhorn_backward_program(const SinkhornForm& form, std::int64_t repeat) {
    return repeat > 0 ? kept_program(form, repeat) : any_repeat_program(form);
}

}  // namespace tessera::mhc
