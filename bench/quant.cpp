#include "kernels/quant.hpp"

#include <fmt/format.h>

#include "bench/case.hpp"
#include "bench/inputs.hpp"

namespace tessera::bench {

namespace {

const char* spelled(quant::ScaleLayout layout) {
    switch (layout) {
        case quant::ScaleLayout::row_major: return "rows";
        case quant::ScaleLayout::column_major: return "columns";
        default: return "packed";
    }
}

std::int64_t scale_bytes(std::int64_t blocks, std::int64_t groups, quant::ScaleLayout layout) {
    return 4 * blocks * (layout == quant::ScaleLayout::packed_ue8m0 ? (groups + 3) / 4 : groups);
}

struct Sets {
    std::vector<Tensor> x;
    std::vector<quant::Quantized> out;
};

template <class Options, class Cast>
std::function<std::function<void(int)>(const Stream&, int)> cast_launcher(Element in, Shape extents, Options options,
                                                                          Cast cast) {
    return [=](const Stream& stream, int count) {
        auto sets = std::make_shared<Sets>();
        for (int i = 0; i < count; ++i) {
            sets->x.push_back(random_tensor(stream, in, extents, static_cast<unsigned>(i)));
            sets->out.push_back(cast(stream, sets->x.back(), options));
        }
        return [=](int i) {
            const auto s = static_cast<std::size_t>(i % count);
            cast(stream, sets->x[s], sets->out[s].data, sets->out[s].sf, options);
        };
    };
}

struct TokenCast {
    quant::Quantized operator()(const Stream& s, const TensorView& x, const quant::CastOptions& o) const {
        return quant::per_token_cast(s, x, o);
    }
    void operator()(const Stream& s, const TensorView& x, const TensorView& d, const TensorView& f,
                    const quant::CastOptions& o) const {
        quant::per_token_cast(s, x, d, f, o);
    }
};
struct BlockCast {
    quant::Quantized operator()(const Stream& s, const TensorView& x, const quant::BlockCastOptions& o) const {
        return quant::per_block_cast(s, x, o);
    }
    void operator()(const Stream& s, const TensorView& x, const TensorView& d, const TensorView& f,
                    const quant::BlockCastOptions& o) const {
        quant::per_block_cast(s, x, d, f, o);
    }
};

}  // namespace

std::vector<Case> quant_cases() {
    std::vector<Case> cases;
    const std::int64_t tokens = 8001, hidden = 7168;
    for (Element in : {bf16, f32})
        for (std::int64_t group : {std::int64_t{32}, std::int64_t{128}, hidden})
            for (auto layout :
                 {quant::ScaleLayout::row_major, quant::ScaleLayout::column_major, quant::ScaleLayout::packed_ue8m0}) {
                quant::CastOptions o{e4m3, group, layout, layout == quant::ScaleLayout::packed_ue8m0};
                const std::int64_t bytes =
                    tokens * hidden * (bits_of(in) / 8 + 1) + scale_bytes(tokens, hidden / group, layout);
                cases.push_back({"per_token_cast",
                                 fmt::format("T={} H={} in={} fmt=e4m3 group={} sf={}", tokens, hidden, name_of(in),
                                             group, spelled(layout)),
                                 bytes, cast_launcher(in, {tokens, hidden}, o, TokenCast{})});
            }
    for (Element in : {bf16, f32})
        for (std::int64_t side : {32, 128})
            for (auto layout : {quant::ScaleLayout::row_major, quant::ScaleLayout::packed_ue8m0}) {
                quant::BlockCastOptions o{e4m3, side, side, layout, layout == quant::ScaleLayout::packed_ue8m0};
                const std::int64_t bytes = tokens * hidden * (bits_of(in) / 8 + 1) +
                                           scale_bytes((tokens + side - 1) / side, hidden / side, layout);
                cases.push_back({"per_block_cast",
                                 fmt::format("T={} H={} in={} fmt=e4m3 block={}x{} sf={}", tokens, hidden, name_of(in),
                                             side, side, spelled(layout)),
                                 bytes, cast_launcher(in, {tokens, hidden}, o, BlockCast{})});
            }
    return cases;
}

}  // namespace tessera::bench
