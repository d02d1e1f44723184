#include "tests/support/engram_cases.hpp"

#include <algorithm>
#include <fmt/core.h>

#include "tests/support/extents.hpp"
#include "tests/support/random.hpp"

namespace tessera::test {

namespace {

constexpr std::int64_t odd_tokens[] = {0, 1, 3, 5, 33, 127, 129};
constexpr std::int64_t processors[] = {1, 78, 114, 131, 132, 148};

std::int64_t hidden_of(Random& random, int index) {
    static const std::vector<std::int64_t> edges = neighbours({4, 64, 256, 512, 1024, 2048}, 2560);
    if (index % 3 == 0) return std::max<std::int64_t>(1, edges[static_cast<std::size_t>(index / 3) % edges.size()]);
    return random.one_in(2) ? 8 * random.log_uniform(1, 128) : random.log_uniform(1, 700);
}

}  // namespace

std::string EngramGateCase::text() const {
    return fmt::format("{} tokens, {} heads, {} channels, {} blocks, shift {}, gap {}, eps {}, clamp {}{}, seed {}",
                       tokens, heads, hidden, blocks, shift, gap, eps, clamp, tiny_rows ? ", tiny rows" : "", seed);
}

std::vector<EngramGateCase> engram_gate_cases(int count) {
    std::vector<EngramGateCase> cases;
    for (int i = 0; i < count; ++i) {
        Random random(static_cast<std::uint64_t>(i) + 71);
        EngramGateCase c{};
        c.hidden = hidden_of(random, i);
        c.heads = random.pick({1, 2, 3, 4, 4, 4, 5, 8, 9, 12});
        const std::int64_t most = std::max<std::int64_t>(1, 60'000 / (c.hidden * c.heads));
        c.tokens = std::min(i % 2 == 0 ? odd_tokens[(i / 2) % 7] : random.log_uniform(1, 150), most);
        c.blocks = processors[i % 6];
        if (c.blocks * c.hidden * c.heads > 300'000) c.blocks = random.between(1, 5);
        c.shift = random.one_in(3) ? random.between(1, 7) : 0;
        c.gap = random.pick({0, 0, 8, 24, 3});
        c.eps = random.pick({1e-20f, 1e-20f, 1e-6f});
        c.clamp = random.pick({1e-6f, 1e-6f, 0.25f});
        c.tiny_rows = random.one_in(2);
        c.seed = static_cast<std::uint64_t>(i);
        cases.push_back(c);
    }
    return cases;
}

std::vector<EngramGateCase> engram_wide_cases() {
    std::vector<EngramGateCase> cases;
    for (const std::int64_t hidden : {2056, 3072, 5000, 7168, 8192, 8200})
        for (const std::int64_t heads : {1, 2, 3, 4}) {
            EngramGateCase c{};
            c.hidden = hidden, c.heads = heads, c.tokens = 3 + hidden % 5 + heads,
            c.blocks = heads == 4 ? 2 : 1 + heads;
            c.gap = hidden == 5000 ? 8 : 0;
            c.eps = 1e-20f, c.clamp = 1e-6f;
            c.seed = static_cast<std::uint64_t>(hidden + heads);
            cases.push_back(c);
        }
    return cases;
}

std::string EngramHashCase::text() const {
    return fmt::format("{} layers, {} tokens, {} columns, {} tables{}, seed {}", layers, tokens, columns, tables,
                       wild ? ", wild" : "", seed);
}

std::vector<EngramHashCase> engram_hash_cases(int count) {
    std::vector<EngramHashCase> cases;
    for (int i = 0; i < count; ++i) {
        Random random(static_cast<std::uint64_t>(i) + 72);
        EngramHashCase c{};
        c.layers = random.between(1, 4);
        c.tokens = i % 2 == 0 ? odd_tokens[(i / 2) % 7] : random.log_uniform(1, 400);
        c.columns = random.pick({2, 3, 3, 4, 7, 16, 17, 20});
        c.tables = random.pick({1, 2, 3, 8, 8, 13, 32, 100, 300});
        c.tokens = std::min(c.tokens, 40'000 / (c.layers * c.columns * c.tables));
        c.wild = random.one_in(2);
        c.seed = static_cast<std::uint64_t>(i);
        cases.push_back(c);
    }
    return cases;
}

std::string EngramReduceCase::text() const {
    return fmt::format("{} rows, {} heads, {} channels, shift {}, seed {}", rows, heads, hidden, shift, seed);
}

std::vector<EngramReduceCase> engram_reduce_cases(int count) {
    std::vector<EngramReduceCase> cases;
    for (int i = 0; i < count; ++i) {
        Random random(static_cast<std::uint64_t>(i) + 73);
        EngramReduceCase c{};
        c.rows = i % 2 == 0 ? processors[(i / 2) % 6] : random.log_uniform(1, 400);
        c.heads = random.between(1, 6);
        c.hidden = random.one_in(2) ? 8 * random.log_uniform(1, 64) : random.log_uniform(1, 300);
        c.shift = random.one_in(3) ? random.between(1, 3) : 0;
        c.seed = static_cast<std::uint64_t>(i);
        cases.push_back(c);
    }
    return cases;
}

}  // namespace tessera::test
