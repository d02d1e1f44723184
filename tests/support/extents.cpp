#include "tests/support/extents.hpp"

#include <fmt/core.h>

namespace tessera::test {
namespace {

const std::vector<std::int64_t>& hidden_edges() {
    static const auto all =
        neighbours({1, 4, 8, 16, 32, 64, 128, 256, 384, 512, 576, 768, 1024, 2048, 3072, 4096, 6144, 7168, 8192}, 9000);
    return all;
}

const std::vector<std::int64_t>& token_edges() {
    static const auto all = neighbours({1, 2, 4, 8, 16, 32, 64, 128, 256, 299}, 300);
    return all;
}

}  // namespace

std::vector<std::int64_t> neighbours(std::initializer_list<std::int64_t> edges, std::int64_t largest) {
    std::vector<std::int64_t> all;
    for (const std::int64_t edge : edges)
        for (std::int64_t n = edge - 1; n <= edge + 1; ++n)
            if (n >= 1 && n <= largest) all.push_back(n);
    return all;
}

std::int64_t random_pitch(Random& random, std::int64_t columns) {
    switch (random.between(0, 5)) {
        case 0: return columns + 1;
        case 1: return columns + 2 * random.between(0, 8) + 1;
        case 2: return 2 * columns;
        case 3: return round_up(columns, 16);
        default: return columns;
    }
}

std::int64_t random_shift(Random& random) { return random.one_in(4) ? random.between(1, 9) : 0; }

void choose_extents(Random& random, int index, std::int64_t pack, std::int64_t& tokens, std::int64_t& hidden) {
    const auto edges = static_cast<int>(hidden_edges().size());
    if (index < 2 * edges)
        hidden = hidden_edges()[index % edges];
    else
        hidden = random.log_uniform(1, 9000);
    hidden = round_up(hidden, pack);
    if (index % 3 == 0)
        tokens = random.pick_from(token_edges());
    else
        tokens = random.log_uniform(1, 301) - 1;
    if (tokens * hidden > 400'000 && index % 16 != 0) tokens = random.between(1, 400'000 / hidden);
}

reference::Scales random_scale_layout(Random& random) {
    using reference::Scales;
    return random.pick({Scales::row_major, Scales::column_major, Scales::packed_ue8m0});
}

std::string text_of(const reference::QuantizeRule& rule) {
    using reference::Format, reference::Scales;
    const char* format = rule.format == Format::e4m3 ? "e4m3" : rule.format == Format::e2m1 ? "e2m1" : "e5m6";
    const char* layout = rule.scales == Scales::row_major      ? "row"
                         : rule.scales == Scales::column_major ? "column"
                                                               : "packed";
    return fmt::format("{} block {}x{} scales {}{}", format, rule.block_rows, rule.block_columns, layout,
                       rule.round ? " rounded" : "");
}

}  // namespace tessera::test
