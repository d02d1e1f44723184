#include "kernels/quant_channel.hpp"
#include "kernels/quant_lossless.hpp"
#include "tests/support/kernels/public_call_inputs.hpp"

namespace tessera::test {

namespace {

template <Element In, Element Format, quant::ScaleLayout Layout>
PreparedCall token_cast(const Stream& s, std::uint64_t seed) {
    Random random(seed);
    const Tensor x = filled(s, In, {tokens, hidden}, random);
    const quant::CastOptions options{Format, Format == e5m6 ? hidden : 128, Layout};
    return call_of(
        {x}, [=] { return list(quant::per_token_cast(s, x.view(), options)); },
        [=](Out o) { return [=] { quant::per_token_cast(s, x.view(), o[0], o[1], options); }; });
}

PreparedCall sf_only(const Stream& s, std::uint64_t seed) {
    Random random(seed);
    const Tensor x = filled(s, bf16, {tokens, hidden}, random);
    return call_of(
        {x}, [=] { return std::vector<Tensor>{quant::per_token_cast_with_sf_only(s, x)}; },
        [=](Out o) { return [=] { quant::per_token_cast_with_sf_only(s, x, o[0]); }; });
}

PreparedCall precomputed(const Stream& s, std::uint64_t seed) {
    Random random(seed);
    const Tensor x = filled(s, bf16, {tokens, hidden}, random), sf = positive(s, {tokens, hidden / 128}, random);
    return call_of(
        {x, sf}, [=] { return std::vector<Tensor>{quant::per_token_cast_with_precomputed_sf(s, x, sf)}; },
        [=](Out o) { return [=] { quant::per_token_cast_with_precomputed_sf(s, x, sf, o[0]); }; });
}

PreparedCall requantize(const Stream& s, std::uint64_t seed) {
    Random random(seed);
    const Tensor x = filled(s, e2m1, {tokens, hidden}, random), sf = positive(s, {tokens, hidden / 128}, random);
    const quant::QuantizedView pair{x, sf};
    return call_of(
        {x, sf}, [=] { return list(quant::per_token_cast(s, pair)); },
        [=](Out o) { return [=] { quant::per_token_cast(s, pair, o[0], o[1]); }; });
}

PreparedCall block_cast(const Stream& s, std::uint64_t seed) {
    Random random(seed);
    const Tensor x = filled(s, f32, {tokens, hidden}, random);
    return call_of(
        {x}, [=] { return list(quant::per_block_cast(s, x)); },
        [=](Out o) { return [=] { quant::per_block_cast(s, x, o[0], o[1]); }; });
}

PreparedCall block_sf_only(const Stream& s, std::uint64_t seed) {
    Random random(seed);
    const Tensor x = filled(s, f32, {tokens, hidden}, random);
    const quant::BlockCastOptions options{.block_rows = 32, .block_columns = 32};
    return call_of(
        {x}, [=] { return std::vector<Tensor>{quant::per_block_cast_with_sf_only(s, x, options)}; },
        [=](Out o) { return [=] { quant::per_block_cast_with_sf_only(s, x, o[0], options); }; });
}

PreparedCall block_precomputed(const Stream& s, std::uint64_t seed) {
    Random random(seed);
    const Tensor x = filled(s, bf16, {tokens, hidden}, random), sf = positive(s, {tokens / 128, hidden / 128}, random);
    return call_of(
        {x, sf}, [=] { return std::vector<Tensor>{quant::per_block_cast_with_precomputed_sf(s, x, sf)}; },
        [=](Out o) { return [=] { quant::per_block_cast_with_precomputed_sf(s, x, sf, o[0]); }; });
}

PreparedCall lossless(const Stream& s, std::uint64_t seed) {
    Random random(seed);
    const Tensor x = filled(s, e2m1, {tokens, hidden}, random), sf = Tensor::zeros(s, f32, {tokens, hidden / 32});
    // Powers of two near each other, as the cast wants them.
    std::vector<float> scales(static_cast<std::size_t>(sf.count()));
    for (float& scale : scales) scale = static_cast<float>(1 << random.between(0, 3));
    copy(s, sf, TensorView::of(Device::host(), scales.data(), f32, sf.extents()));
    const quant::QuantizedView pair{x, sf, quant::ScaleLayout::row_major, 1, 32};
    return call_of(
        {x, sf}, [=] { return list(quant::per_block_cast_lossless(s, pair)); },
        [=](Out o) { return [=] { quant::per_block_cast_lossless(s, pair, o[0], o[1]); }; });
}

PreparedCall cast_back(const Stream& s, std::uint64_t seed) {
    Random random(seed);
    const Tensor x = filled(s, e4m3, {tokens, hidden}, random), sf = positive(s, {tokens, hidden / 128}, random);
    const quant::QuantizedView pair{x, sf};
    return call_of(
        {x, sf}, [=] { return std::vector<Tensor>{quant::cast_back(s, pair)}; },
        [=](Out o) { return [=] { quant::cast_back(s, pair, o[0]); }; });
}

template <bool Transpose>
PreparedCall channel_cast(const Stream& s, std::uint64_t seed) {
    Random random(seed);
    const Tensor x = filled(s, bf16, {tokens, hidden}, random);
    return call_of(
        {x},
        [=] { return list(Transpose ? quant::per_channel_cast_and_transpose(s, x) : quant::per_channel_cast(s, x)); },
        [=](Out o) {
            return [=] {
                Transpose ? quant::per_channel_cast_and_transpose(s, x, o[0], o[1])
                          : quant::per_channel_cast(s, x, o[0], o[1]);
            };
        });
}

template <bool Pair>
PreparedCall channel_cast_fused(const Stream& s, std::uint64_t seed) {
    Random random(seed);
    const Tensor x = filled(s, Pair ? e4m3 : bf16, {tokens, hidden}, random),
                 sf = positive(s, {tokens, hidden / 128}, random), order = shuffled(s, tokens, {tokens}, random);
    quant::FusedChannelCastOptions options;
    options.pos_to_token = order;
    if constexpr (Pair) {
        const quant::QuantizedView pair{x, sf};
        return call_of(
            {x, sf, order}, [=] { return list(quant::per_channel_cast_fused(s, pair, options)); },
            [=](Out o) { return [=] { quant::per_channel_cast_fused(s, pair, o[0], o[1], options); }; });
    } else {
        return call_of(
            {x, order}, [=] { return list(quant::per_channel_cast_fused(s, x.view(), options)); },
            [=](Out o) { return [=] { quant::per_channel_cast_fused(s, x.view(), o[0], o[1], options); }; });
    }
}

}  // namespace

std::vector<PublicCall> quant_calls() {
    using quant::ScaleLayout;
    return {
        {"quant::per_token_cast bf16 to e4m3", token_cast<bf16, e4m3, ScaleLayout::row_major>},
        {"quant::per_token_cast f32 to e2m1, packed scales", token_cast<f32, e2m1, ScaleLayout::packed_ue8m0>},
        {"quant::per_token_cast bf16 to e5m6, column-major scales", token_cast<bf16, e5m6, ScaleLayout::column_major>},
        {"quant::per_token_cast of a pair", requantize},
        {"quant::per_token_cast_with_sf_only", sf_only},
        {"quant::per_token_cast_with_precomputed_sf", precomputed},
        {"quant::per_block_cast", block_cast},
        {"quant::per_block_cast_with_sf_only", block_sf_only},
        {"quant::per_block_cast_with_precomputed_sf", block_precomputed},
        {"quant::per_block_cast_lossless", lossless},
        {"quant::cast_back", cast_back},
        {"quant::per_channel_cast", channel_cast<false>},
        {"quant::per_channel_cast_and_transpose", channel_cast<true>},
        {"quant::per_channel_cast_fused", channel_cast_fused<false>},
        {"quant::per_channel_cast_fused of a pair", channel_cast_fused<true>},
    };
}

}  // namespace tessera::test
