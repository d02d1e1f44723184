#include <algorithm>
#include <bit>
#include <fmt/format.h>
#include <numeric>

#include "dsl/base/error.hpp"
#include "kernels/quant/cast_input.hpp"
#include "kernels/quant/scale_input.hpp"
#include "kernels/quant_lossless.hpp"
#include "runtime/engine.hpp"

// With E the biased exponents of the scales of an output block: its own is Eo = max E − 6, and a code's value moves by
// d = E − Eo, from −5 to 6. Such a value is a normal number of F16 and of E4M3, so that F16 arithmetic is exact.

namespace tessera::quant {

namespace {

constexpr const char* name = "per_block_cast_lossless";
constexpr int threads = 256;

/// The parameter "x_sf" as exponents.
class Exponents {
public:
    Exponents(Kernel& k, ScaleLayout layout, const Index& blocks, std::int64_t groups) : kernel_(k) {
        const Dim pitch = k.dim("x_sf_pitch");
        packed_ = layout == ScaleLayout::packed_ue8m0;
        if (packed_)
            bytes_ = k.input<ue8m0>("x_sf", {blocks, groups},
                                    {.align = 4, .strides = {4, AxisStride(pitch * 4).packed(4, 1)}});
        else if (layout == ScaleLayout::row_major)
            numbers_ = k.input<f32>("x_sf", {blocks, groups}, {.align = 4, .strides = {pitch, 1}});
        else
            numbers_ = k.input<f32>("x_sf", {blocks, groups}, {.align = 4, .strides = {1, pitch}});
    }

    /// A rectangle of scales. Outside of the tensor E = 0.
    struct Window {
        const Exponents& of;
        std::int64_t extents[2];
        Index at[2];
        Value<u32, 2> bits;       // of the FP32 number
        Value<i32, 2> exponents;  // E
        Window(const Exponents& scales, std::int64_t rows, std::int64_t columns, const Index& row, const Index& column)
            : of(scales),
              extents{rows, columns},
              at{row, column},
              bits(scales.load(extents, at)),
              exponents(cast<i32>((bits >> 23u) & 255u)) {}

        void report(const Value<boolean, 2>& bad, const char* rule) const {
            if (of.packed_)
                of.kernel_.report(bad, rule, of.bytes_.window(extents, {at[0], at[1]}),
                                  bitcast<ue8m0>(cast<u8>(exponents)));
            else
                of.kernel_.report(bad, rule, of.numbers_.window(extents, {at[0], at[1]}), bitcast<f32>(bits));
        }
    };

private:
    Value<u32, 2> load(const std::int64_t (&extents)[2], const Index (&at)[2]) const {
        if (!packed_) return bitcast<u32>(tessera::load(numbers_.window(extents, {at[0], at[1]})));
        return cast<u32>(bitcast<u8>(tessera::load(bytes_.window(extents, {at[0], at[1]})))) << 23u;
    }
    Kernel& kernel_;
    bool packed_ = false;
    Global<f32, 2> numbers_{detail::ViewSpec{}};
    Global<ue8m0, 2> bytes_{detail::ViewSpec{}};
};

/// What a kernel is specialised for.
struct Form {
    std::int64_t hidden;
    QuantizedLayout from;
    LosslessOptions to;
    bool aligned;
};

/// Whether a thread holds few scales, and moves its values in wide accesses: masks, addresses and scales cost
/// registers.
bool lean(const Form& f) { return f.aligned && f.from.block_columns >= 16; }
/// Values that a block of threads converts at once.
std::int64_t tile_values(const Form& f) { return lean(f) ? 8192 : 2048; }
/// Where an output block has more, so many may they be.
std::int64_t most_tile_values(const Form& f) { return lean(f) ? 16384 : 2048; }

/// Values that are converted together: [rows, cols] codes under [rows / a, cols / b] scales; a × b values share one.
struct Tile {
    std::int64_t rows, cols, a, b;
    std::int64_t per_thread;  // codes side by side
    bool whole_blocks;        // several scales become one, everywhere
    Tile(std::int64_t r, std::int64_t c, const Form& f)
        : rows(r),
          cols(c),
          a(std::min(r, f.from.block_rows)),
          b(std::min(c, f.from.block_columns)),
          per_thread(std::gcd(f.aligned ? std::gcd<std::int64_t>(16, f.hidden) : 2, c)),
          whole_blocks(f.hidden % f.to.block_columns == 0 &&
                       (f.to.block_rows > f.from.block_rows || f.to.block_columns > f.from.block_columns)) {}
};

/// The codes and scales of a tile at a place.
class Codes {
public:
    Codes(const Tile& tile, const Global<e2m1, 2>& x, const Exponents& x_sf, const QuantizedLayout& from,
          const Index& row, const Index& column)
        : tile_(tile),
          piece_(x.window({tile.rows, tile.cols}, {row, column})),
          values_(load_values()),
          scales(x_sf, tile.rows / tile.a, tile.cols / tile.b, row / from.block_rows, column / from.block_columns) {}

private:
    /// Whether the codes under a scale lie in one warp, where the scale does too: neighbours in a row, in whole
    /// vectors.
    bool a_warp_holds_groups() const {
        return tile_.whole_blocks && tile_.a == 1 && tile_.per_thread == 16 && tile_.b >= 16 &&
               tile_.b <= 32 * tile_.per_thread;
    }
    /// Codes as numbers, [rows / a, a, cols / b, b].
    Value<f16, 4> load_values() const {
        const auto codes = load(piece_, {.per_thread = {1, tile_.per_thread}});
        return cast<f16>(codes).split(axis<1>, tile_.b).split(axis<0>, tile_.a);
    }
    Tile tile_;
    Piece<e2m1, 2> piece_;
    Value<f16, 4> values_;

public:
    const Exponents::Window scales;

    /// Moved under the new exponents, one for every scale or one for all.
    Value<e4m3, 2> moved(const Value<i32, 2>& to) const {
        const auto d = max(scales.exponents - to, -15);
        const auto factor = bitcast<f16>(cast<u16>((d + 15) << 10));
        return cast<e4m3>(values_ * factor.unsqueeze(axis<1>).unsqueeze(axis<3>)).merge(axis<2>).merge(axis<0>);
    }

    /// Reports the scales that do not allow it. Blocks of zeros may have such scales: only where there is a suspect the
    /// codes are looked at once more, so that others need not keep them.
    void check(Kernel& k, const Value<i32, 2>& to) const {
        const auto& e = scales.exponents;
        const auto no_power = (e == 255) | ((scales.bits & 0x807fffffu) != 0u);
        const auto suspect = no_power | (e == 0) | (e + 5 < to) | (to == 0);
        const auto look = [&] {
            auto largest = reduce_max(abs(load_values()), axis<3>);
            if (tile_.a > 1) largest = reduce_max(largest, axis<1>);
            const auto used = largest.squeeze(axis<3>).squeeze(axis<1>) > 0.0f;
            scales.report(no_power | ((e == 0) & used), "a scale is a positive power of two");
            scales.report((e + 5 < to) & used, "a scale is at least 2^-11 times the largest one of its output block");
            scales.report((to == 0) & used, "the largest scale of an output block is at least 2^-120");
        };
        if (a_warp_holds_groups())
            k.when(warp_any(suspect), look);
        else
            k.when(any(suspect), look);
    }
};

Scales<2> scales_from(const Value<i32, 2>& exponents) {
    const auto e = cast<u32>(exponents);
    return {bitcast<f32>(e << 23u), bitcast<f32>(e), e};
}
template <int R>
Value<i32, R> exponent_below(const Value<i32, R>& largest) {
    return max(largest - 6, 0);
}

/// The parameters of both kernels. Scales cover a × b values of the input, and rows × columns of the output.
struct Parameters {
    CastTensors<e2m1, e4m3> t;
    std::int64_t a, b, rows, columns;
    Exponents x_sf;
    ScaleOutput sf;

    Parameters(Kernel& k, const Form& f)
        : t(k, f.hidden, f.aligned),
          a(f.from.block_rows),
          b(f.from.block_columns),
          rows(f.to.block_rows),
          columns(f.to.block_columns),
          x_sf(k, f.from.scale_layout, ceil_div(t.tokens, a), ceil_div(f.hidden, b)),
          sf(k, f.to.scale_layout, ceil_div(t.tokens, rows), ceil_div(f.hidden, columns)) {
        // Low blocks of several scales have few exponents a thread, and their registers room for more blocks at once.
        k.threads(threads, !lean(f) || a > 1 ? 1 : rows <= 32 && (rows > a || columns > b) ? 6 : 4);
    }
};

/// Whole output blocks in registers: wide ones, so that rows are read in long runs and packed scales by the word.
Tile tile_of(const Form& f) {
    const std::int64_t rows = f.to.block_rows, columns = f.to.block_columns, all = tile_values(f), room = all / rows;
    const bool words = f.to.scale_layout == ScaleLayout::packed_ue8m0 && 4 * columns <= room;
    const std::int64_t cols = std::max<std::int64_t>({words ? 4 * columns : columns, packed_elements_of(e2m1),
                                                      std::min<std::int64_t>(128, room),
                                                      std::min(std::gcd<std::int64_t>(f.hidden, 1024), room)});
    return {std::max(rows, all / cols), cols, f};
}

Program tiles_program(const Form& f) {
    return record(name, [=](Kernel& k) {
        const Parameters p(k, f);
        const Tile tile = tile_of(f);
        const std::int64_t down = tile.rows / p.rows, across = tile.cols / p.columns;  // output blocks
        const auto [m, n] = k.grid(ceil_div(p.sf.rows(), down),
                                   std::max(ceil_div(f.hidden, tile.cols), ceil_div(p.sf.groups(), across)));

        const Codes codes(tile, p.t.x, p.x_sf, f.from, m * tile.rows, n * tile.cols);
        const std::int64_t joins_rows = p.rows / p.a, joins_columns = p.columns / p.b;
        const auto joined = codes.scales.exponents.split(axis<1>, joins_columns)
                                .split(axis<0>, joins_rows)
                                .permute<0, 2, 1, 3>()
                                .merge(axis<2>);  // [down, across, scales of an output block]
        const auto to = exponent_below(reduce_max(joined, axis<2>));
        p.sf.store(scales_from(to.squeeze(axis<2>)), {down, across}, m, n);
        const auto spread = (to + full({1, 1, joins_rows * joins_columns}, Value<i32, 0>(0)))
                                .split(axis<2>, joins_columns)
                                .permute<0, 2, 1, 3>()
                                .merge(axis<2>)
                                .merge(axis<0>);
        store(p.t.y.block({tile.rows, tile.cols}, {m, n}), codes.moved(spread));
        codes.check(k, spread);
    });
}

/// A large output block a block of threads, in steps: first over its scales, then over its values. Columns of one value
/// go in pairs, which share bytes.
Program steps_program(const Form& f) {
    return record("per_block_cast_lossless_large", [=](Kernel& k) {
        const Parameters p(k, f);
        const std::int64_t side = p.columns == 1 ? 2 : 1;
        const std::int64_t joins_rows = p.rows / p.a, joins_columns = p.columns / p.b;
        const std::int64_t down = std::min<std::int64_t>(joins_rows, 32),
                           across = std::min<std::int64_t>(joins_columns, 32);
        const std::int64_t cols = std::min<std::int64_t>(p.columns * side, 1024);
        const Tile tile(std::min(p.rows, tile_values(f) / cols), cols, f);
        const auto [m, n] =
            k.grid(p.sf.rows(), std::max(ceil_div(f.hidden, p.columns * side), ceil_div(p.sf.groups(), side)));

        auto largest = k.variable(full({1, side}, Value<i32, 0>(0)));
        // Of a block that reaches past the last row, only what there is.
        k.serial(min(ceil_div(p.t.tokens, p.a * down), joins_rows / down), [&](Index i) {
            k.serial(joins_columns / across, [&](Index j) {
                const Exponents::Window e(p.x_sf, down, across * side, (m * (joins_rows / down) + i) * down,
                                          (n * (joins_columns / across) + j) * (across * side));
                const auto rows = reduce_max(e.exponents, axis<0>).split(axis<1>, across);
                largest = max(largest.get(), reduce_max(rows, axis<2>).squeeze(axis<2>));
            });
        });
        const auto to = exponent_below(largest.get());
        p.sf.store(scales_from(to), {1, side}, m, n);
        k.serial(min(ceil_div(p.t.tokens, tile.rows), p.rows / tile.rows), [&](Index i) {
            k.serial(p.columns * side / cols, [&](Index j) {
                const Index row = (m * (p.rows / tile.rows) + i) * tile.rows,
                            column = (n * (p.columns * side / cols) + j) * cols;
                const Codes codes(tile, p.t.x, p.x_sf, f.from, row, column);
                store(p.t.y.window({tile.rows, cols}, {row, column}), codes.moved(to));
                codes.check(k, to);
            });
        });
    });
}

bool power_of_two(std::int64_t n) { return n >= 1 && std::has_single_bit(static_cast<std::uint64_t>(n)); }

void check_blocks(std::int64_t hidden, const QuantizedLayout& from, const LosslessOptions& to) {
    check_whole_bytes(name, e2m1, hidden);
    const bool powers = power_of_two(from.block_rows) && power_of_two(from.block_columns) &&
                        power_of_two(to.block_rows) && power_of_two(to.block_columns);
    if (!powers || from.block_rows > to.block_rows || from.block_columns > to.block_columns)
        throw UsageError(
            fmt::format("{}: blocks of {} × {} become blocks of {} × {}; all sides are powers of two, and the "
                        "new ones at least the old ones",
                        name, from.block_rows, from.block_columns, to.block_rows, to.block_columns));
    constexpr std::int64_t largest = std::int64_t{1} << 30;
    if (to.block_rows > largest || to.block_columns > largest)
        throw UsageError(
            fmt::format("{}: blocks of {} × {}; a side is at most 2^30", name, to.block_rows, to.block_columns));
}

ScaleShape scale_shape(const QuantizedView& x, const LosslessOptions& o) {
    return {o.scale_layout, ceil_div(x.data.extents[0], o.block_rows), ceil_div(x.data.extents[1], o.block_columns)};
}

void check(const Stream& stream, const QuantizedView& x, const LosslessOptions& o) {
    check_quantized(name, stream, x);
    if (x.data.element != e2m1)
        throw UsageError(fmt::format("{}: x is {}; this cast takes e2m1", name, name_of(x.data.element)));
    check_blocks(x.data.extents[1], x.layout(), o);
}

}  // namespace

Program per_block_cast_lossless_program(std::int64_t hidden, const QuantizedLayout& from,
                                        const LosslessOptions& options, bool aligned) {
    check_blocks(hidden, from, options);
    // A block that reaches past a row's end is as good as one that ends with it.
    const auto row = static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(hidden)));
    Form f{hidden, from, options, aligned};
    f.from.block_columns = std::min(from.block_columns, row);
    f.to.block_columns = std::min(options.block_columns, row);
    const bool fits = f.to.block_rows <= most_tile_values(f) / std::max<std::int64_t>(f.to.block_columns, 2);
    return fits ? tiles_program(f) : steps_program(f);
}

void per_block_cast_lossless(const Stream& stream, const QuantizedView& x, const TensorView& data, const TensorView& sf,
                             const LosslessOptions& options) {
    check(stream, x, options);
    const ScaleShape shape = scale_shape(x, options);
    check_codes(name, data, e4m3, x.data);
    check_scales(name, sf, shape);
    if (x.data.extents[0] == 0) return;
    const bool aligned = rows_aligned(x.data, data);
    const std::int64_t hidden = x.data.extents[1];
    const KernelId id(name, {hidden, x.scale_layout, x.block_rows, x.block_columns, options.block_rows,
                             options.block_columns, options.scale_layout, aligned});
    const CompiledKernel& kernel = Engine::of(stream).kernel(
        stream, id, [&] { return per_block_cast_lossless_program(hidden, x.layout(), options, aligned); });
    launch_scaled(kernel, stream, x, data, &sf, &shape);
}

Quantized per_block_cast_lossless(const Stream& stream, const QuantizedView& x, const LosslessOptions& options) {
    check(stream, x, options);
    Quantized result = empty_quantized(stream, e4m3, x.data.extents, scale_shape(x, options));
    per_block_cast_lossless(stream, x, result.data, result.sf, options);
    return result;
}

}  // namespace tessera::quant
