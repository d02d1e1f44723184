#include <algorithm>
#include <bit>
#include <numeric>

#include "kernels/dispatch.hpp"
#include "kernels/quant/cast_input.hpp"
#include "kernels/quant/scale.hpp"
#include "kernels/swiglu/activation.hpp"
#include "kernels/swiglu/check.hpp"
#include "runtime/engine.hpp"

// Whole rows, one or several side by side: one that is skipped costs no memory traffic, because its offset lies past
// the end of everything.

namespace tessera::swiglu {

namespace {

constexpr std::int64_t most_elements_per_thread = 32, most_halves_per_thread = 40;
/// Blocks add to the same three counters, one after the other: few of them should. Rows of fewer threads lie side by
/// side in a block that counts, and it takes such rows more than once.
constexpr int threads_that_count = 128;
constexpr std::int64_t turns_that_count = 3;
constexpr std::int64_t longest_row_in_registers = 256 * most_elements_per_thread;

/// Columns of each half that a block handles, and its threads.
struct Tile {
    std::int64_t cols;
    int threads;
};

/// Few blocks without much padding: a block is taken to cost as much as 512 columns beside its own. `unit` columns
/// stand in one block, or whole groups where a block has a whole row; a thread holds whole vectors, and `most` elements
/// at most.
Tile choose_tile(std::int64_t hidden, std::int64_t group, std::int64_t unit, std::int64_t vector, std::int64_t most) {
    Tile best{0, 0};
    std::int64_t best_cost = 0;
    const auto consider = [&](std::int64_t cols, int threads) {
        if (cols > threads * most) return;
        const std::int64_t cost = ceil_div(hidden, cols) * (cols + 512);
        if (best.threads != 0 && cost >= best_cost) return;
        best = {cols, threads};
        best_cost = cost;
    };
    const std::int64_t row = align_up(hidden, group);
    for (const int threads : {128, 256, 64, 32}) {
        for (std::int64_t held = vector; held <= most; held += vector)
            consider(align_up(threads * held, std::lcm(threads * vector, unit)), threads);
        if (row % (threads * vector) == 0) consider(row, threads);
    }
    return best;
}

/// Whether the clamp is a number of the input's type: values are then cut as they are loaded, two at a time.
template <Element In>
bool is_number_of(float c) {
    return In == f32 || (std::bit_cast<std::uint32_t>(c) & 0xFFFFu) == 0;
}
/// The largest number of the input's type that is at most c > 0: what is above one is above the other.
template <Element In>
Value<In, 0> rounded_down(const Value<f32, 0>& c) {
    if constexpr (In == f32)
        return c;
    else
        return bitcast<bf16>(cast<u16>(bitcast<u32>(c) >> 16u));
}

/// The parameters of a forward kernel, and what a block's row is, or its rows side by side.
template <Element In>
class Row {
public:
    Row(Kernel& k, std::int64_t hidden, std::int64_t groups, const ForwardOptions& o, const ForwardShape& shape,
        bool aligned)
        : shape_(shape),
          clamped_(o.swiglu_clamp_value.has_value()),
          cut_as_loaded_(clamped_ && is_number_of<In>(*o.swiglu_clamp_value)),
          tokens_(k.dim("tokens")),
          x_(detail::ViewSpec{}),
          y_(detail::ViewSpec{}) {
        const Dim pitch = k.dim("x_pitch", multiple_of(aligned ? 128 / bits_of(In) : 1));
        const int align = aligned ? 16 : bits_of(In) / 8;
        x_ = k.input<In>("x", {2, tokens_, hidden}, {.align = align, .strides = {hidden, pitch, 1}});
        y_ = k.output<e4m3>("y", {tokens_, hidden}, {.align = aligned ? 16 : 1});
        sf_.emplace(k, o.scale_layout, tokens_, groups);
        if (shape.weights) {
            positions_ = k.input<i32>("pos_to_token_topk", {tokens_}, {.align = 4});
            weights_ = k.input<f32>("topk_weights", {k.dim("slots")}, {.align = 4});
        }
        if (shape.pos_to_expert) experts_ = k.input<i32>("pos_to_expert", {tokens_}, {.align = 4});
        if (shape.count) count_ = k.inout<i64>("clamped_count", {3}, {.align = 8});
        if (clamped_) clamp_ = k.scalar<f32>("swiglu_clamp_value");
    }

    const quant::ScaleOutput& sf() const { return *sf_; }

    /// To be called once the grid is known: where the row of block m lies, and its weight.
    void locate(const Index& m) {
        row_ = m;
        if (shape_.pos_to_expert) row_ = select(load(experts_[m]) < 0, sf_->rows(), m);
        if (shape_.weights) weight_ = load(weights_[cast<i64>(load(positions_[row_], -1))]);
    }
    const Index& index() const { return row_; }
    /// The same of rows m · count … side by side.
    void locate(const Index& m, std::int64_t count) {
        rows_ = coordinates({count}, axis<0>) + m * count;
        if (shape_.pos_to_expert)
            rows_ = select(load(experts_.block({count}, {m})) >= 0, *rows_, full({count}, Value<i64, 0>(sf_->rows())));
        if (!shape_.weights) return;
        const auto slots = cast<i64>(load(positions_.window({count}, {*rows_}), -1));
        weights_of_rows_ = load(weights_.window({count}, {slots})).unsqueeze(axis<1>);
    }
    const std::optional<Value<i64, 1>>& side_by_side() const { return rows_; }

    struct Halves {
        Value<In, 2> gate, linear;
    };
    /// Columns n · cols … of both halves as [rows, cols].
    Halves halves(std::int64_t cols, const Index& n) const {
        return {load(piece(x_[0], cols, n)), load(piece(x_[1], cols, n))};
    }
    /// How often halves were cut: gate above the clamp, linear above, linear below. A thread counts in `Sum`.
    template <Element Sum>
    class Counts {
    public:
        /// Of a block of `threads` threads, `per_row` of which hold a row by vectors.
        Counts(Kernel& k, std::int64_t threads, std::int64_t per_row, std::int64_t vector)
            : per_row_(per_row),
              vector_(vector),
              pair_(vector % 2 == 0 ? 2 : 1),
              by_thread_{k.variable(full({threads, pair_}, Value<Sum, 0>(0.0f))),
                         k.variable(full({threads, pair_}, Value<Sum, 0>(0.0f))),
                         k.variable(full({threads, pair_}, Value<Sum, 0>(0.0f)))} {}
        void add(const Row& row, const Halves& h) {
            const Value<In, 0> c = rounded_down<In>(row.clamp_);
            add(0, h.gate > c);
            add(1, h.linear > c);
            add(2, h.linear < -c);
        }
        void store(const Row& row) const {
            for (int i = 0; i < 3; ++i) {
                const auto by_thread = reduce_sum(cast<f32>(by_thread_[i].get()), axis<1>).squeeze(axis<1>);
                atomic_add(row.count_.window({1}, {i}), cast<i64>(reduce_sum(by_thread, axis<0>)));
            }
        }

    private:
        // In the input's type, two at a time.
        void add(int i, const Value<boolean, 2>& cut) {
            const auto ones = by_threads(cast<In>(cut), per_row_, vector_).split(axis<3>, pair_);
            const auto own = ones.template permute<0, 2, 1, 3, 4>().merge(axis<2>).merge(axis<0>);
            by_thread_[i] = by_thread_[i].get() + cast<Sum>(reduce_sum(own, axis<1>).squeeze(axis<1>));
        }
        std::int64_t per_row_, vector_, pair_;
        Variable<Sum, 2> by_thread_[3];
    };

    /// The activation, with silu(gate) as it is given.
    template <class Silu>
    Value<f32, 2> activation(const Halves& h, Silu&& silu) const {
        const Halves cut = cut_as_loaded_ ? within(h, rounded_down<In>(clamp_)) : h;
        auto gate = cast<f32>(cut.gate), linear = cast<f32>(cut.linear);
        if (clamped_ && !cut_as_loaded_) {
            gate = cut_above(gate, clamp_).value;
            linear = cut_both(linear, clamp_).value;
        }
        const auto v = silu(gate) * linear;
        if (!shape_.weights) return v;
        return weights_of_rows_ ? v * *weights_of_rows_ : v * weight_;
    }

    void store_codes(std::int64_t cols, const Index& n, const Value<f32, 2>& scaled) const {
        store(piece(y_, cols, n), cast<e4m3>(scaled));
    }

private:
    template <Element T>
    Piece<T, 2> piece(const Global<T, 2>& tensor, std::int64_t cols, const Index& n) const {
        if (rows_) return tensor.window({rows_->extent(0), cols}, {*rows_, n * cols});
        return tensor.block({1, cols}, {row_, n});
    }
    static Halves within(const Halves& h, const Value<In, 0>& c) {
        return {min_nan(h.gate, c), max_nan(min_nan(h.linear, c), -c)};
    }
    ForwardShape shape_;
    bool clamped_, cut_as_loaded_;
    Dim tokens_;
    Global<In, 3> x_;
    Global<e4m3, 2> y_;
    std::optional<quant::ScaleOutput> sf_;
    Global<i32, 1> positions_{detail::ViewSpec{}}, experts_{detail::ViewSpec{}};
    Global<f32, 1> weights_{detail::ViewSpec{}};
    Global<i64, 1> count_{detail::ViewSpec{}};
    Value<f32, 0> clamp_{detail::Ref{}}, weight_{detail::Ref{}};
    Index row_{detail::Ref{}};
    std::optional<Value<i64, 1>> rows_;
    std::optional<Value<f32, 2>> weights_of_rows_;
};

bool cut_as_loaded(Element in, const ForwardOptions& o) {
    return o.swiglu_clamp_value &&
           with_element<bf16, f32>(in, [&]<Element In>() { return is_number_of<In>(*o.swiglu_clamp_value); });
}

quant::FormatLimits limits(const ForwardOptions& o) { return {448.0f, o.sf_clamp_min.value_or(1e-4f)}; }

/// Whole groups, or a whole row, in registers.
template <Element In>
Program tiles_program(std::int64_t hidden, const ForwardOptions& o, const ForwardShape& shape, bool aligned) {
    return record("swiglu_forward_and_per_token_cast", [=](Kernel& k) {
        const bool whole = o.num_per_channels == hidden;
        Row<In> row(k, hidden, ceil_div(hidden, o.num_per_channels), o, shape, aligned);
        const bool packed = o.scale_layout == quant::ScaleLayout::packed_ue8m0;
        const std::int64_t vector = aligned ? std::gcd<std::int64_t>(hidden, 128 / bits_of(In)) : 1;
        const std::int64_t unit = whole ? 1 : o.num_per_channels * (packed ? 4 : 1);
        auto [cols, threads] = choose_tile(hidden, o.num_per_channels, unit, vector,
                                           In == bf16 ? most_halves_per_thread : most_elements_per_thread);
        if (whole) {
            threads = hidden > 128 * most_elements_per_thread ? 256 : 128;
            cols = align_up(hidden, threads * vector);
        }
        const std::int64_t group = whole ? cols : o.num_per_channels;
        const bool by_warps = !whole && group <= 32 * vector;  // no maximum crosses warps
        const bool beside = shape.count && by_warps && cols % group == 0 && cols / group == row.sf().groups();
        const std::int64_t rows = beside ? std::max(1, threads_that_count / threads) : 1;
        const std::int64_t turns = shape.count ? turns_that_count : 1;
        k.threads(static_cast<int>(threads * rows));
        const auto [m, n] = k.grid(ceil_div(row.sf().rows(), rows * turns), ceil_div(hidden, cols));
        const auto quantize = [&](const Value<f32, 2>& activation) {
            const auto v = activation.split(axis<1>, group);
            const auto amax = reduce_max(abs(v), axis<2>).squeeze(axis<2>);
            const auto scales = quant::scales_of(amax, limits(o), quant::rounds(o.scale_layout, o.round_sf));
            const std::int64_t groups = whole ? row.sf().groups() : cols / group;
            if (row.side_by_side())
                row.sf().store_rows(scales, *row.side_by_side());
            else if (cols % unit != 0)
                row.sf().store_row(scales, row.index());
            else
                row.sf().store(whole ? quant::spread(scales, {1, groups}) : scales, {1, groups}, row.index(), n);
            row.store_codes(cols, n, (v * scales.inv.unsqueeze(axis<2>)).merge(axis<1>));
        };
        static_assert(most_halves_per_thread * turns_that_count <= 256);  // what BF16 counts
        using Counts = typename Row<In>::template Counts<In>;
        const auto turn = [&](const Index& r, Counts* counts) {
            if (beside)
                row.locate(r, rows);
            else
                row.locate(r);
            const auto h = row.halves(cols, n);
            if (counts) counts->add(row, h);
            const auto fast = [&] { quantize(row.activation(h, bounded_silu<2>)); };
            const auto exact = [&] { quantize(row.activation(h, silu<2>)); };
            if (by_warps)
                k.when(is_bounded_by_warps(h.gate, threads, vector), fast).otherwise(exact);
            else
                k.when(is_bounded(h.gate), fast).otherwise(exact);
        };
        if (!shape.count) return turn(m, nullptr);
        Counts counts(k, threads * rows, threads, vector);
        k.serial(turns, [&](Index i) { turn(m * turns + i, &counts); });
        counts.store(row);
    });
}

/// One scale for a row that is too long for the registers: read twice, the second time from cache.
template <Element In>
Program long_rows_program(std::int64_t hidden, const ForwardOptions& o, const ForwardShape& shape, bool aligned) {
    return record("swiglu_forward_and_per_token_cast_long_rows", [=](Kernel& k) {
        Row<In> row(k, hidden, 1, o, shape, aligned);
        constexpr int threads = 256;
        constexpr std::int64_t cols = threads * 8;
        k.threads(threads);
        const auto [m] = k.grid(row.sf().rows());
        row.locate(m);

        std::optional<typename Row<In>::template Counts<f32>> counts;
        if (shape.count) counts.emplace(k, threads, threads, 8);
        auto largest = k.variable(full({1, 1}, Value<f32, 0>(0.0f)));
        k.serial(ceil_div(hidden, cols), [&](Index step) {
            const auto h = row.halves(cols, step);
            if (counts) counts->add(row, h);
            const auto v = row.activation(h, silu<2>);
            largest = max(largest.get(), reduce_max(abs(v), axis<1>));
        });
        if (counts) counts->store(row);
        const auto scales = quant::scales_of(largest.get(), limits(o), quant::rounds(o.scale_layout, o.round_sf));
        const std::int64_t groups = row.sf().groups();
        row.sf().store(quant::spread(scales, {1, groups}), {1, groups}, row.index(), 0);
        k.serial(ceil_div(hidden, cols), [&](Index step) {
            row.store_codes(cols, step, row.activation(row.halves(cols, step), silu<2>) * scales.inv);
        });
    });
}

}  // namespace

Program forward_and_per_token_cast_program(Element in, std::int64_t hidden, const ForwardOptions& options,
                                           const ForwardShape& shape, bool aligned) {
    check_forward_options(in, hidden, options);
    const bool long_rows = options.num_per_channels == hidden && hidden > longest_row_in_registers;
    return with_element<bf16, f32>(in, [&]<Element In>() {
        return long_rows ? long_rows_program<In>(hidden, options, shape, aligned)
                         : tiles_program<In>(hidden, options, shape, aligned);
    });
}

void forward_and_per_token_cast(const Stream& stream, const TensorView& x, const TensorView& data, const TensorView& sf,
                                const ForwardOptions& options, const ForwardMaps& maps) {
    const ForwardArguments a = check_forward(stream, x, options, maps);
    check_forward_outputs(a, data, sf, stream);
    if (a.tokens == 0) return;
    const auto address = [](const TensorView& t) { return reinterpret_cast<std::uintptr_t>(t.data); };
    const bool aligned =
        address(x) % 16 == 0 && address(data) % 16 == 0 && a.x.strides[1] % (128 / bits_of(x.element)) == 0;
    const KernelId id("swiglu_forward_and_per_token_cast",
                      {x.element, a.hidden, options.num_per_channels, options.scale_layout,
                       quant::rounds(options.scale_layout, options.round_sf), options.swiglu_clamp_value.has_value(),
                       cut_as_loaded(x.element, options), limits(options).amax_min, a.shape.weights,
                       a.shape.pos_to_expert, a.shape.count, aligned});
    const CompiledKernel& kernel = Engine::of(stream).kernel(
        stream, id, [&] { return forward_and_per_token_cast_program(x.element, a.hidden, options, a.shape, aligned); });
    launch_forward(kernel, stream, a, data, sf, options, maps);
}

quant::Quantized forward_and_per_token_cast(const Stream& stream, const TensorView& x, const ForwardOptions& options,
                                            const ForwardMaps& maps) {
    const ForwardArguments a = check_forward(stream, x, options, maps);
    quant::Quantized result = quant::empty_quantized(stream, e4m3, {a.tokens, a.hidden}, a.scales);
    forward_and_per_token_cast(stream, x, result.data, result.sf, options, maps);
    return result;
}

}  // namespace tessera::swiglu
