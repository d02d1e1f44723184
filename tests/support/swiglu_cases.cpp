#include "tests/support/swiglu_cases.hpp"

#include <algorithm>
#include <array>
#include <fmt/core.h>

#include "tests/support/random.hpp"

namespace tessera::test {
namespace {

using reference::Scales;

/// Halves next to the edges of vectors, groups, and tiles.
constexpr std::int64_t halves[] = {1,    7,    8,    9,    31,   32,   33,   63,   64,   65,   127,  128,
                                   129,  255,  256,  257,  511,  512,  513,  576,  640,  1023, 1024, 1025,
                                   1280, 1536, 2047, 2048, 2049, 3072, 3584, 4095, 4096, 4097, 7168, 8192};
/// Longer than what is kept in registers: only with one scale a row.
constexpr std::array<std::int64_t, 4> long_halves = {8193, 8200, 10240, 12001};

constexpr std::int64_t most_values = 120'000;

std::int64_t random_rows(Random& random, std::int64_t half) {
    const std::int64_t rows =
        random.one_in(3) ? random.pick<std::int64_t>({0, 1, 2, 3, 4, 5, 7, 8, 31, 33}) : random.log_uniform(1, 200);
    return std::min(rows, std::max<std::int64_t>(1, most_values / half));
}

std::optional<float> random_clamp(Random& random) {
    const float clamp = random.pick({0.0f, 0.0f, 10.0f, 0.5f, 1.25f});
    return clamp > 0 ? std::optional(clamp) : std::nullopt;
}

std::string shown(const std::optional<float>& x) { return x ? fmt::format("{}", *x) : "none"; }

}  // namespace

std::string SwigluForwardCase::text() const {
    const char* layout = scales == Scales::row_major ? "row" : scales == Scales::column_major ? "column" : "packed";
    return fmt::format("{}x2x{} {} pitch {} shift {} group {} scales {}{} clamp {} least {}{}{}{} seed {}", rows, half,
                       name_of(type), pitch, shift, group, layout, round ? " rounded" : "", shown(clamp),
                       shown(least_amax), weights ? " weights" : "", experts ? " experts" : "", count ? " count" : "",
                       seed);
}

std::string SwigluBackwardCase::text() const {
    return fmt::format("{}x2x{} group {} weights {}x{} shift {}{} clamp {} seed {}", rows, half, group, tokens, top_k,
                       shift, round ? " rounded" : "", shown(clamp), seed);
}

std::vector<SwigluForwardCase> swiglu_forward_cases(int count) {
    Random random(21);
    std::vector<SwigluForwardCase> cases;
    for (int i = 0; i < count; ++i) {
        SwigluForwardCase c{};
        const auto edges = static_cast<int>(std::size(halves));
        c.half = i < 2 * edges ? halves[i % edges] : random.log_uniform(1, 8192);
        c.group = random.pick<std::int64_t>({16, 32, 64, 128, 128, 128, c.half});
        if (i % 16 == 15) c.group = c.half = random.pick_from(long_halves);
        c.rows = random_rows(random, c.half);
        c.pitch =
            random.pick<std::int64_t>({2 * c.half, 2 * c.half, 2 * c.half + 1, (c.half + 7) / 8 * 16, 4 * c.half});
        c.shift = random.one_in(4) ? random.between(1, 9) : 0;
        c.type = random.pick({bf16, bf16, f32});
        c.scales = random.pick({Scales::row_major, Scales::column_major, Scales::packed_ue8m0});
        c.round = c.scales == Scales::packed_ue8m0 || random.one_in(2);
        c.clamp = random_clamp(random);
        if (random.one_in(4)) c.least_amax = random.pick({1e-10f, 1e-30f, 0.25f});
        c.weights = random.one_in(2);
        c.experts = random.one_in(2);
        c.count = c.clamp && random.one_in(2);
        c.seed = random.next();
        cases.push_back(c);
    }
    return cases;
}

std::vector<SwigluBackwardCase> swiglu_backward_cases(int count) {
    Random random(22);
    std::vector<SwigluBackwardCase> cases;
    for (int i = 0; i < count; ++i) {
        SwigluBackwardCase c{};
        c.group = random.pick<std::int64_t>({16, 32, 32, 64, 128, 128});
        c.half = c.group * (i % 3 == 0 ? random.between(1, 9) : random.log_uniform(1, 8192 / c.group));
        c.rows = random_rows(random, c.half);
        c.top_k = random.between(1, 9);
        c.tokens = random.one_in(8) ? 0 : random.log_uniform(1, std::max<std::int64_t>(1, 2 * c.rows));
        c.shift = random.one_in(4) ? random.between(1, 9) : 0;
        c.round = random.one_in(2);
        c.clamp = random_clamp(random);
        c.seed = random.next();
        cases.push_back(c);
    }
    return cases;
}

}  // namespace tessera::test
