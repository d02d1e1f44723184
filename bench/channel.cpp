#include <fmt/format.h>
#include <memory>

#include "bench/case.hpp"
#include "bench/inputs.hpp"
#include "bench/mapping.hpp"
#include "kernels/quant_channel.hpp"

namespace tessera::bench {

namespace {

constexpr std::int64_t hidden = 7168;
using quant::ChannelCastOptions;

struct Set {
    Tensor x, x_sf, pos;
    quant::Quantized out;
};

/// Runs launch on `count` sets in turn; make(seed) gives one.
template <class Make, class Launch>
std::function<void(int)> rotating(int count, Make make, Launch launch) {
    auto sets = std::make_shared<std::vector<Set>>();
    for (int i = 0; i < count; ++i) sets->push_back(make(static_cast<unsigned>(i)));
    return [sets, launch, count](int i) { launch((*sets)[static_cast<std::size_t>(i % count)]); };
}

std::int64_t scale_bytes(std::int64_t rows, const ChannelCastOptions& o) {
    return 4 * (rows + o.num_per_tokens - 1) / o.num_per_tokens * hidden;
}

Case plain_case(const std::string& name, std::int64_t rows, const ChannelCastOptions& o, bool transpose) {
    return {transpose ? "per_channel_cast_and_transpose" : "per_channel_cast",
            name,
            rows * hidden * 3 + scale_bytes(rows, o),
            [=](const Stream& s, int count) {
                return rotating(
                    count,
                    [&](unsigned seed) {
                        Set t;
                        t.x = random_tensor(s, bf16, {rows, hidden}, seed);
                        t.out = transpose ? quant::per_channel_cast_and_transpose(s, t.x, o)
                                          : quant::per_channel_cast(s, t.x, o);
                        return t;
                    },
                    [s, o, transpose](const Set& t) {
                        if (transpose)
                            quant::per_channel_cast_and_transpose(s, t.x, t.out.data, t.out.sf, o);
                        else
                            quant::per_channel_cast(s, t.x, t.out.data, t.out.sf, o);
                    });
            },
            [=] {
                return transpose ? quant::per_channel_cast_and_transpose_program(bf16, hidden, o)
                                 : quant::per_channel_cast_program(bf16, hidden, o);
            },
            rows * hidden};
}

struct FusedCase {
    std::string name;
    std::int64_t rows;  // of the result, and as the reference counts, of x
    bool pair;
    ChannelCastOptions options;
    MoeSet routing;  // 0 tokens: rows in order
};

Case fused_case(const FusedCase& c) {
    const bool gather = c.routing.tokens > 0;
    const Element in = c.pair ? e4m3 : bf16;
    const std::int64_t row_bytes = hidden * bits_of(in) / 8 + (c.pair ? hidden / 128 * 4 : 0) + (gather ? 4 : 0);
    return {"per_channel_cast_fused",
            c.name,
            c.rows * (row_bytes + hidden) + scale_bytes(c.rows, c.options),
            [=](const Stream& s, int count) {
                const Mapping map(gather ? c.routing : MoeSet{1, 1, 1, 1}, 128);
                return rotating(
                    count,
                    [&](unsigned seed) {
                        Set t;
                        t.x = random_tensor(s, in, {c.rows, hidden}, seed);
                        if (c.pair) t.x_sf = random_tensor(s, f32, {c.rows, hidden / 128}, seed);
                        if (gather) t.pos = map.tokens_on(s, c.rows);
                        t.out = {Tensor::empty(s, e4m3, {c.rows, hidden}),
                                 Tensor::empty(s, f32, {(c.rows + 127) / 128, hidden})};
                        return t;
                    },
                    [s, c, gather](const Set& t) {
                        quant::FusedChannelCastOptions o{c.options};
                        if (gather) o.pos_to_token = t.pos;
                        if (c.pair)
                            quant::per_channel_cast_fused(s, quant::QuantizedView{t.x, t.x_sf}, t.out.data, t.out.sf,
                                                          o);
                        else
                            quant::per_channel_cast_fused(s, t.x.view(), t.out.data, t.out.sf, o);
                    });
            },
            [=] {
                return c.pair ? quant::per_channel_cast_program(quant::QuantizedLayout{}, hidden, c.options, gather)
                              : quant::per_channel_cast_program(bf16, hidden, c.options, gather);
            },
            c.rows * hidden};
}

}  // namespace

std::vector<Case> channel_cases() {
    std::vector<Case> cases;
    cases.push_back(plain_case("T=8064, H=7168, in=bf16, rows/group=128", 8064, {128, false}, false));
    for (const bool round : {false, true})
        cases.push_back(
            plain_case(fmt::format("dtype=bf16, H=7168, rows/group=128, T=8064, pow2={}", round ? "True" : "False"),
                       8064, {128, round}, false));
    for (const std::int64_t group : {128, 32})
        for (const bool round : {false, true})
            cases.push_back(plain_case(
                fmt::format("dtype=bf16, H=7168, group={}, T=8064, pow2={}", group, round ? "True" : "False"), 8064,
                {group, round}, true));
    const auto named = [](const char* back, int ranks, int experts, int tokens, int topk, const char* round) {
        return fmt::format("H=7168, cast back={}, ranks={}, E/rank={}, group=128, rows/group=128, T={}, k={}, pow2={}",
                           back, ranks, experts, tokens, topk, round);
    };
    cases.push_back(fused_case({named("False", 0, 0, 4096, 0, "False"), 4096, false, {128, false}, {}}));
    cases.push_back(
        fused_case({named("False", 64, 4, 25432, 6, "False"), 26368, false, {128, false}, {4, 6, 25432, 26100}}));
    cases.push_back(
        fused_case({named("False", 8, 32, 18754, 6, "True"), 28544, false, {128, true}, {32, 6, 18754, 26500}}));
    cases.push_back(fused_case({named("True", 0, 0, 4096, 0, "True"), 4096, true, {128, true}, {}}));
    cases.push_back(
        fused_case({named("True", 8, 9, 18448, 6, "False"), 25216, true, {128, false}, {9, 6, 18448, 24650}}));
    return cases;
}

}  // namespace tessera::bench
