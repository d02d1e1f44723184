#include "tests/support/mhc_cases.hpp"

#include <algorithm>
#include <fmt/core.h>

#include "tests/support/random.hpp"

namespace tessera::test {

namespace {

constexpr std::int64_t tokens[] = {1, 3, 5, 33, 127, 129, 0, 2, 4, 15, 16, 17, 31, 32, 63, 64, 65, 128, 255, 257};
constexpr std::int64_t hiddens[] = {64,  128, 1,    7,    8,    9,    63,   65,   255,  256,  257,
                                    511, 512, 1023, 1024, 1025, 1280, 2047, 2048, 2560, 4096, 7168};
constexpr std::int64_t most_values = 60'000;

}  // namespace

std::string MhcCase::text() const {
    return fmt::format("{} tokens of {} x {}, repeat {} eps {} size {} shift {} gap {}{}{} seed {}", tokens, streams,
                       hidden, repeat, eps, size, shift, gap, two_axes ? " two axes" : "",
                       accumulate ? " accumulate" : "", seed);
}

std::vector<MhcCase> mhc_cases(int count) {
    Random random(31);
    std::vector<MhcCase> cases;
    for (int i = 0; i < count; ++i) {
        MhcCase c{};
        c.streams = i % 3 == 0 ? 4 : random.between(1, 8);
        c.hidden = i < 3 * 22 ? hiddens[i % 22] : random.log_uniform(1, 4096);
        c.tokens = i < 4 * 20 ? tokens[i % 20] : random.log_uniform(1, 300);
        c.tokens = std::min(c.tokens, std::max<std::int64_t>(1, most_values / (c.hidden * c.streams)));
        if (i < 3 * 20) c.tokens = tokens[i % 20], c.hidden = std::min<std::int64_t>(c.hidden, i % 20 < 6 ? 320 : 130);
        c.repeat = random.pick<std::int64_t>({10, 10, 1, 2, 3, 11, 12, 20, 64});
        c.eps = random.pick({1e-6f, 1e-6f, 1e-2f, 1e-3f, 0.0f});
        c.size = random.pick({1.0, 1.0, 1.0, 3.0, 25.0});
        if (c.eps == 0.0f) c.size = 1.0;
        c.shift = random.one_in(4) ? random.between(1, 9) : 0;
        c.gap = random.pick<std::int64_t>({0, 0, 1, 4, 20});
        c.two_axes = random.one_in(3);
        c.accumulate = random.one_in(2);
        c.seed = random.next();
        cases.push_back(c);
    }
    return cases;
}

std::string MhcNormCase::text() const {
    return fmt::format("{}, {} logits, {} splits", common.text(), columns, splits);
}

std::vector<MhcNormCase> mhc_norm_cases(int count) {
    Random random(37);
    std::vector<MhcNormCase> cases;
    for (int i = 0; i < count; ++i) {
        MhcCase c{};
        c.streams = i % 2 == 0 ? 4 : random.between(1, 4);
        // K is a multiple of 64.
        const std::int64_t unit = c.streams == 4 ? 16 : c.streams == 2 ? 32 : 64;
        c.hidden = unit * random.log_uniform(1, i % 16 == 5 ? 7168 / unit : 1280 / unit);
        c.tokens = i < 2 * 20 ? tokens[i % 20] : random.log_uniform(1, 300);
        c.tokens = std::min(c.tokens, std::max<std::int64_t>(1, most_values / (c.hidden * c.streams)));
        if (i < 2 * 20) c.tokens = tokens[i % 20], c.hidden = std::min(c.hidden, unit * (i % 20 < 6 ? 4 : 2));
        c.repeat = random.pick<std::int64_t>({10, 10, 1, 2, 20});
        c.eps = random.pick({1e-6f, 1e-6f, 1e-2f, 1e-3f});
        c.size = random.pick({1e-4, 1e-2, 1.0});
        c.shift = random.one_in(4) ? random.between(1, 9) : 0;
        c.two_axes = random.one_in(3);
        c.accumulate = random.one_in(2);
        c.seed = random.next();
        const std::int64_t mixes = c.streams * (c.streams + 2);
        cases.push_back({c, random.one_in(3) ? random.pick<std::int64_t>({4, 1, 3, random.between(1, 24)}) : mixes,
                         random.pick<std::int64_t>({0, 0, 1, 2, 16, 64, random.between(1, 64)})});
    }
    return cases;
}

}  // namespace tessera::test
