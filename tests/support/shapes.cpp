#include "tests/support/shapes.hpp"

#include <fmt/core.h>

#include "tests/support/random.hpp"

namespace tessera::test {
namespace {

using reference::Scales;

/// 0, ±1 around each of these.
std::vector<std::int64_t> neighbours(std::initializer_list<std::int64_t> edges, std::int64_t largest) {
    std::vector<std::int64_t> all;
    for (const std::int64_t edge : edges)
        for (std::int64_t n = edge - 1; n <= edge + 1; ++n)
            if (n >= 1 && n <= largest) all.push_back(n);
    return all;
}

const std::vector<std::int64_t>& hidden_edges() {
    static const auto all =
        neighbours({1, 4, 8, 16, 32, 64, 128, 256, 384, 512, 576, 768, 1024, 2048, 3072, 4096, 6144, 7168, 8192}, 9000);
    return all;
}

const std::vector<std::int64_t>& token_edges() {
    static const auto all = neighbours({1, 2, 4, 8, 16, 32, 64, 128, 256, 299}, 300);
    return all;
}

std::int64_t round_up(std::int64_t n, std::int64_t multiple) { return (n + multiple - 1) / multiple * multiple; }

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

/// Case `index` of a list: its two extents. The first walk the edges, the rest are random; both are kept small
/// together.
void choose_extents(Random& random, int index, std::int64_t& tokens, std::int64_t& hidden) {
    const auto edges = static_cast<int>(hidden_edges().size());
    if (index < 2 * edges)
        hidden = hidden_edges()[index % edges];
    else
        hidden = random.log_uniform(1, 9000);
    if (index % 3 == 0)
        tokens = random.pick_from(token_edges());
    else
        tokens = random.log_uniform(1, 301) - 1;
    if (tokens * hidden > 400'000 && index % 16 != 0) tokens = random.between(1, 400'000 / hidden);
}

CastCase common_case(Random& random, int index) {
    CastCase c{};
    choose_extents(random, index, c.tokens, c.hidden);
    c.pitch = random_pitch(random, c.hidden);
    c.shift = random_shift(random);
    c.type = random.pick({bf16, f32});
    c.scales = random.pick({Scales::row_major, Scales::column_major, Scales::packed_ue8m0});
    c.round = c.scales == Scales::packed_ue8m0 || random.one_in(2);
    c.seed = random.next();
    return c;
}

}  // namespace

std::string CastCase::text() const {
    const char* layout = scales == Scales::row_major ? "row" : scales == Scales::column_major ? "column" : "packed";
    return fmt::format("{}x{} {} pitch {} shift {} block {}x{} scales {}{} seed {}", tokens, hidden, name_of(type),
                       pitch, shift, block_rows, block_columns, layout, round ? " rounded" : "", seed);
}

std::string TransposeCase::text() const {
    return fmt::format("{}x{}x{} {} pitch {} shift {} seed {}", batch, rows, columns, name_of(type), pitch, shift,
                       seed);
}

std::vector<CastCase> token_cast_cases(int count) {
    Random random(1);
    std::vector<CastCase> cases;
    for (int i = 0; i < count; ++i) {
        CastCase c = common_case(random, i);
        c.block_rows = 1;
        c.block_columns = random.pick<std::int64_t>({16, 32, 64, 128, 128, c.hidden});
        cases.push_back(c);
    }
    return cases;
}

std::vector<CastCase> block_cast_cases(int count) {
    Random random(2);
    std::vector<CastCase> cases;
    for (int i = 0; i < count; ++i) {
        CastCase c = common_case(random, i);
        c.block_rows = random.pick<std::int64_t>({32, 128});
        c.block_columns = random.pick<std::int64_t>({32, 128});
        cases.push_back(c);
    }
    return cases;
}

std::vector<TransposeCase> transpose_cases(int count) {
    static const auto edges = neighbours({1, 4, 8, 16, 32, 48, 64, 96, 128, 192, 256, 512, 576}, 600);
    Random random(3);
    std::vector<TransposeCase> cases;
    for (int i = 0; i < count; ++i) {
        TransposeCase c{};
        c.batch = random.pick<std::int64_t>({0, 1, 1, 1, 2, 3, 4, 5});
        c.rows = i % 2 == 0 ? random.pick_from(edges) : random.log_uniform(1, 601) - 1;
        c.columns = i % 4 < 2 ? random.pick_from(edges) : random.log_uniform(1, 601) - 1;
        if (i % 16 == 5) c.rows = random.log_uniform(4000, 40'000), c.columns = random.between(1, 9);
        if (i % 16 == 13) c.columns = random.log_uniform(4000, 40'000), c.rows = random.between(1, 9);
        if (c.batch * c.rows * c.columns > 500'000) c.batch = 1;
        c.pitch = random_pitch(random, c.columns);
        c.shift = random_shift(random);
        c.type = random.pick({u8, e4m3, bf16, i16, f32, i32});
        c.seed = random.next();
        cases.push_back(c);
    }
    return cases;
}

}  // namespace tessera::test
