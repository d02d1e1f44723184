#include "kernels/quant.hpp"

#include <fmt/format.h>
#include <memory>
#include <tuple>

#include "bench/case.hpp"
#include "bench/inputs.hpp"
#include "kernels/quant_lossless.hpp"

namespace tessera::bench {

namespace {

using quant::ScaleLayout;

constexpr std::int64_t tokens = 8001, aligned_tokens = 8064, hidden = 7168;

const char* spelled(Element e) { return e == f32 ? "fp32" : name_of(e); }
const char* spelled(bool b) { return b ? "True" : "False"; }

std::int64_t data_bytes(std::int64_t rows, Element e) { return rows * hidden * bits_of(e) / 8; }
std::int64_t scale_bytes(std::int64_t blocks, std::int64_t groups, ScaleLayout layout) {
    return 4 * blocks * (layout == ScaleLayout::packed_ue8m0 ? (groups + 3) / 4 : groups);
}
std::int64_t up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

/// Inputs x and outputs of `count` calls.
struct Sets {
    std::vector<Tensor> x;
    std::vector<quant::Quantized> out;
};
using Prepare = std::function<std::function<void(int)>(const Stream&, int)>;

Prepare token_cast(Element in, std::int64_t rows, const quant::CastOptions& o) {
    return [=](const Stream& stream, int count) {
        auto sets = std::make_shared<Sets>();
        for (int i = 0; i < count; ++i) {
            sets->x.push_back(random_tensor(stream, in, {rows, hidden}, static_cast<unsigned>(i)));
            sets->out.push_back(quant::per_token_cast(stream, sets->x.back(), o));
        }
        return [=](int i) {
            const auto s = static_cast<std::size_t>(i % count);
            quant::per_token_cast(stream, sets->x[s], sets->out[s].data, sets->out[s].sf, o);
        };
    };
}

Prepare block_cast(Element in, std::int64_t rows, const quant::BlockCastOptions& o) {
    return [=](const Stream& stream, int count) {
        auto sets = std::make_shared<Sets>();
        for (int i = 0; i < count; ++i) {
            sets->x.push_back(random_tensor(stream, in, {rows, hidden}, static_cast<unsigned>(i)));
            sets->out.push_back(quant::per_block_cast(stream, sets->x.back(), o));
        }
        return [=](int i) {
            const auto s = static_cast<std::size_t>(i % count);
            quant::per_block_cast(stream, sets->x[s], sets->out[s].data, sets->out[s].sf, o);
        };
    };
}

/// Quantized inputs made from random data by the cast whose scales `from` describes.
quant::Quantized quantized(const Stream& stream, Element format, std::int64_t rows, const quant::QuantizedLayout& from,
                           bool round, unsigned seed) {
    const Tensor x = random_tensor(stream, bf16, {rows, hidden}, seed);
    if (from.block_rows == 1)
        return quant::per_token_cast(stream, x, {format, from.block_columns, from.scale_layout, round});
    return quant::per_block_cast(stream, x, {format, from.block_rows, from.block_columns, from.scale_layout, round});
}

quant::QuantizedView view(const quant::Quantized& q, const quant::QuantizedLayout& l) {
    return {q.data, q.sf, l.scale_layout, l.block_rows, l.block_columns};
}

Prepare requantize(Element in, const quant::QuantizedLayout& from, const quant::CastOptions& o) {
    return [=](const Stream& stream, int count) {
        auto in_sets = std::make_shared<std::vector<quant::Quantized>>(),
             out_sets = std::make_shared<std::vector<quant::Quantized>>();
        for (int i = 0; i < count; ++i) {
            in_sets->push_back(quantized(stream, in, tokens, from, true, static_cast<unsigned>(i)));
            out_sets->push_back(quant::per_token_cast(stream, view(in_sets->back(), from), o));
        }
        return [=](int i) {
            const auto s = static_cast<std::size_t>(i % count);
            quant::per_token_cast(stream, view((*in_sets)[s], from), (*out_sets)[s].data, (*out_sets)[s].sf, o);
        };
    };
}

Prepare cast_back(Element in, std::int64_t rows, const quant::QuantizedLayout& from, bool round, Element out) {
    return [=](const Stream& stream, int count) {
        auto in_sets = std::make_shared<std::vector<quant::Quantized>>();
        auto out_sets = std::make_shared<std::vector<Tensor>>();
        for (int i = 0; i < count; ++i) {
            in_sets->push_back(quantized(stream, in, rows, from, round, static_cast<unsigned>(i)));
            out_sets->push_back(Tensor::empty(stream, out, {rows, hidden}));
        }
        return [=](int i) {
            const auto s = static_cast<std::size_t>(i % count);
            quant::cast_back(stream, view((*in_sets)[s], from), (*out_sets)[s]);
        };
    };
}

Case token_case(std::string name, Element in, Element format, std::int64_t group, ScaleLayout layout,
                bool round = true) {
    const quant::CastOptions o{format, group, layout, round};
    const std::int64_t bytes =
        data_bytes(tokens, in) + data_bytes(tokens, format) + scale_bytes(tokens, up(hidden, group), layout);
    return {
        format == e5m6 ? "per_token_cast_to_e5m6" : "per_token_cast", std::move(name), bytes, token_cast(in, tokens, o),
        [=] { return quant::per_token_cast_program(in, hidden, o); }, tokens * hidden};
}

Case block_case(std::string name, std::int64_t rows, Element in, Element format, std::int64_t side,
                ScaleLayout layout) {
    const quant::BlockCastOptions o{format, side, side, layout, true};
    const std::int64_t bytes =
        data_bytes(rows, in) + data_bytes(rows, format) + scale_bytes(up(rows, side), up(hidden, side), layout);
    return {"per_block_cast",
            std::move(name),
            bytes,
            block_cast(in, rows, o),
            [=] { return quant::per_block_cast_program(in, hidden, o); },
            rows * hidden};
}

Case requantize_case(Element in, std::int64_t side) {
    const quant::QuantizedLayout from{ScaleLayout::packed_ue8m0, side, side};
    const quant::CastOptions o{e2m1, 32, ScaleLayout::packed_ue8m0, true};
    const std::int64_t bytes = data_bytes(tokens, in) + data_bytes(tokens, e2m1) +
                               scale_bytes(up(tokens, side), hidden / side, from.scale_layout) +
                               scale_bytes(tokens, hidden / 32, o.scale_layout);
    return {"per_token_cast",
            fmt::format("fmt=e2m1, H=7168, in={}, group=32, T=8001, pow2=True, packed=True, in block={}x{}",
                        name_of(in), side, side),
            bytes,
            requantize(in, from, o),
            [=] { return quant::per_token_cast_program(in, from, hidden, o); },
            tokens * hidden};
}

Case back_case(const char* kernel, std::string name, std::int64_t rows, Element in, const quant::QuantizedLayout& from,
               bool round, Element out) {
    const std::int64_t bytes =
        data_bytes(rows, in) + data_bytes(rows, out) +
        scale_bytes(up(rows, from.block_rows), up(hidden, from.block_columns), from.scale_layout);
    return {kernel,
            std::move(name),
            bytes,
            cast_back(in, rows, from, round, out),
            [=] { return quant::cast_back_program(in, hidden, from, out); },
            rows * hidden};
}

Prepare lossless(std::int64_t rows, const quant::QuantizedLayout& from, const quant::LosslessOptions& o) {
    return [=](const Stream& stream, int count) {
        auto in_sets = std::make_shared<std::vector<quant::Quantized>>(),
             out_sets = std::make_shared<std::vector<quant::Quantized>>();
        for (int i = 0; i < count; ++i) {
            in_sets->push_back(quantized(stream, e2m1, rows, from, true, static_cast<unsigned>(i)));
            out_sets->push_back(quant::per_block_cast_lossless(stream, view(in_sets->back(), from), o));
        }
        return [=](int i) {
            const auto s = static_cast<std::size_t>(i % count);
            quant::per_block_cast_lossless(stream, view((*in_sets)[s], from), (*out_sets)[s].data, (*out_sets)[s].sf,
                                           o);
        };
    };
}

Case lossless_case(std::string name, std::int64_t rows, ScaleLayout from, const quant::LosslessOptions& o) {
    const quant::QuantizedLayout in{from, 1, 32};
    const std::int64_t bytes = data_bytes(rows, e2m1) + data_bytes(rows, e4m3) + scale_bytes(rows, hidden / 32, from) +
                               scale_bytes(up(rows, o.block_rows), up(hidden, o.block_columns), o.scale_layout);
    return {"per_block_cast_lossless",
            std::move(name),
            bytes,
            lossless(rows, in, o),
            [=] { return quant::per_block_cast_lossless_program(hidden, in, o); },
            rows * hidden};
}

void add_token_casts(std::vector<Case>& cases) {
    const auto packed = ScaleLayout::packed_ue8m0;
    cases.push_back(token_case("T=8001, H=7168, in=bf16, fmt=e4m3, group=128, packed", bf16, e4m3, 128, packed));
    cases.push_back(token_case("T=8001, H=7168, in=fp32, fmt=e4m3, group=32, packed", f32, e4m3, 32, packed));
    cases.push_back(
        token_case("fmt=e4m3, H=7168, in=fp32, group=7168, T=8001, pow2=True, packed=True", f32, e4m3, hidden, packed));
    for (std::int64_t group : {std::int64_t{32}, std::int64_t{128}, hidden})
        for (auto layout : {ScaleLayout::row_major, ScaleLayout::column_major})
            cases.push_back(token_case(fmt::format("T=8001, H=7168, in=bf16, fmt=e4m3, group={}, {}", group,
                                                   layout == ScaleLayout::row_major ? "rows" : "columns"),
                                       bf16, e4m3, group, layout, false));
    cases.push_back(token_case("T=8001, H=7168, in=bf16, fmt=e2m1, group=32, packed", bf16, e2m1, 32, packed));
    cases.push_back(
        token_case("T=8001, H=7168, in=bf16, fmt=e2m1, group=32, rows", bf16, e2m1, 32, ScaleLayout::row_major, false));
    cases.push_back(token_case("T=8001, H=7168, in=fp32, fmt=e2m1, group=32, packed", f32, e2m1, 32, packed));
    cases.push_back(requantize_case(e2m1, 128));
    cases.push_back(requantize_case(e4m3, 32));
    for (Element in : {bf16, f32})
        for (bool p : {false, true})
            cases.push_back(token_case(
                fmt::format("H=7168, in={}, group=7168, T=8001, pow2=True, packed={}", spelled(in), spelled(p)), in,
                e5m6, hidden, p ? packed : ScaleLayout::row_major));
}

void add_block_casts(std::vector<Case>& cases) {
    for (auto [in, format] : {std::pair{bf16, e2m1}, {bf16, e4m3}, {f32, e2m1}})
        cases.push_back(block_case(
            fmt::format("T=8064, H=7168, in={}, fmt={}, block=128x128, packed", spelled(in), name_of(format)),
            aligned_tokens, in, format, 128, ScaleLayout::packed_ue8m0));
    cases.push_back(block_case("block=128x128, fmt=e4m3, H=7168, in=bf16, T=8001, pow2=True, packed=False", tokens,
                               bf16, e4m3, 128, ScaleLayout::row_major));
    cases.push_back(block_case("block=32x32, fmt=e4m3, H=7168, in=bf16, T=8001, pow2=True, packed=True", tokens, bf16,
                               e4m3, 32, ScaleLayout::packed_ue8m0));
    cases.push_back(block_case("block=32x32, fmt=e4m3, H=7168, in=fp32, T=8001, pow2=True, packed=False", tokens, f32,
                               e4m3, 32, ScaleLayout::row_major));
}

void add_lossless_casts(std::vector<Case>& cases) {
    const auto layout = [](bool packed) { return packed ? ScaleLayout::packed_ue8m0 : ScaleLayout::row_major; };
    for (const auto& [in_packed, rows, columns, out_packed] : {std::tuple<bool, int, int, bool>{false, 128, 128, false},
                                                               {false, 1, 128, false},
                                                               {false, 32, 32, true},
                                                               {true, 1, 128, true},
                                                               {true, 32, 32, false}})
        cases.push_back(lossless_case(
            fmt::format("H=7168, in block=1x32, in_use_packed_ue8m0={}, T=8001, out_round_sf=True, out block={}x{}, "
                        "out_use_packed_ue8m0={}",
                        spelled(in_packed), rows, columns, spelled(out_packed)),
            tokens, layout(in_packed), {rows, columns, layout(out_packed)}));
    cases.push_back(lossless_case("T=8064, H=7168, in block=1x32, out block=128x128", aligned_tokens, layout(false),
                                  {128, 128, layout(false)}));
}

void add_casts_back(std::vector<Case>& cases) {
    const auto rows = ScaleLayout::row_major, packed = ScaleLayout::packed_ue8m0;
    for (Element out : {bf16, f32})
        cases.push_back(back_case(
            "cast_back",
            fmt::format("fmt=e4m3, H=7168, group=128, rows/group=128, T=8001, out={}, pow2=False", spelled(out)),
            tokens, e4m3, {rows, 128, 128}, false, out));
    cases.push_back(back_case("cast_back_per_token", "T=8064, H=7168, fmt=e2m1, group=32, out=bf16", aligned_tokens,
                              e2m1, {packed, 1, 32}, true, bf16));
    for (Element out : {bf16, f32})
        cases.push_back(back_case("cast_back_per_token",
                                  fmt::format("T=8064, H=7168, fmt=e4m3, group=128, out={}", spelled(out)),
                                  aligned_tokens, e4m3, {packed, 1, 128}, true, out));
    cases.push_back(back_case("cast_back_per_token",
                              "fmt=e2m1, H=7168, group=128, T=8001, out=fp32, pow2=True, packed=False", tokens, e2m1,
                              {rows, 1, 128}, true, f32));
    cases.push_back(back_case("cast_back_per_token",
                              "fmt=e2m1, H=7168, group=7168, T=8001, out=bf16, pow2=True, packed=False", tokens, e2m1,
                              {rows, 1, hidden}, true, bf16));
    for (Element out : {bf16, f32})
        for (bool p : {false, true})
            cases.push_back(back_case(
                "cast_back_e5m6",
                fmt::format("H=7168, group=7168, T=8001, out={}, pow2=True, packed={}", spelled(out), spelled(p)),
                tokens, e5m6, {p ? packed : rows, 1, hidden}, true, out));
}

}  // namespace

std::vector<Case> quant_cases() {
    std::vector<Case> cases;
    add_token_casts(cases);
    add_block_casts(cases);
    add_lossless_casts(cases);
    add_casts_back(cases);
    return cases;
}

}  // namespace tessera::bench
