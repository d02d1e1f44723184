#include "tests/support/shapes.hpp"

#include <fmt/core.h>

#include "tests/support/extents.hpp"

namespace tessera::test {
namespace {

using reference::Scales;

CastCase common_case(Random& random, int index) {
    CastCase c{};
    choose_extents(random, index, 1, c.tokens, c.hidden);
    c.pitch = random_pitch(random, c.hidden);
    c.shift = random_shift(random);
    c.type = random.pick({bf16, f32});
    c.scales = random_scale_layout(random);
    c.round = c.scales == Scales::packed_ue8m0 || random.one_in(2);
    c.seed = random.next();
    return c;
}

}  // namespace

std::string CastCase::text() const {
    return fmt::format("{}x{} {} pitch {} shift {} to {} shift {} gap {} seed {}", tokens, hidden, name_of(type), pitch,
                       shift, text_of(rule()), shift_out, scale_gap, seed);
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
