#include "tests/support/channel_shapes.hpp"

#include <fmt/core.h>
#include <limits>

#include "tests/support/extents.hpp"

namespace tessera::test {
namespace {

ChannelCase common_case(Random& random, int index) {
    ChannelCase c{};
    static const auto edges = neighbours({16, 32, 64, 96, 128, 160, 256, 384}, 600);
    c.tokens = index % 2 == 0 ? random.pick_from(edges) : random.log_uniform(1, 500) - 1;
    c.hidden = index % 4 < 2 ? std::max<std::int64_t>(1, random.pick_from(edges)) : random.log_uniform(1, 800);
    if (index % 3 == 0) c.hidden = round_up(c.hidden, 32);
    if (index % 3 == 0) c.tokens = round_up(c.tokens, 16);
    if (c.tokens * c.hidden > 100'000) c.tokens = 100'000 / c.hidden;
    c.pitch = random_pitch(random, c.hidden);
    c.shift = random_shift(random);
    c.type = random.pick({bf16, bf16, f32});
    c.num_per_tokens = random.pick<std::int64_t>({32, 128});
    c.round = random.one_in(2);
    c.rows = -1;
    c.seed = random.next();
    return c;
}

void choose_rows(Random& random, ChannelCase& c) {
    static const auto edges = neighbours({16, 32, 64, 128, 224, 256, 384}, 500);
    c.rows = random.one_in(2) ? random.pick_from(edges) : random.log_uniform(1, 500) - 1;
}

}  // namespace

std::string ChannelCase::text() const {
    return fmt::format("{}x{} {} pitch {} shift {} from {} gap {} by {} tokens{} rows {} seed {}", tokens, hidden,
                       name_of(type), pitch, shift, text_of(from), gap, num_per_tokens, round ? " rounded" : "", rows,
                       seed);
}

std::vector<std::int32_t> ChannelCase::pos_to_token() const {
    Random random(seed + 7);
    std::vector<std::int32_t> rows_of(static_cast<std::size_t>(std::max<std::int64_t>(rows, 0)));
    const int empty = random.pick({1, 2, 8, 1000});
    for (std::int32_t& row : rows_of) {
        row = random.pick({-1, -1, -9, std::numeric_limits<std::int32_t>::min()});
        if (tokens > 0 && !random.one_in(empty)) row = static_cast<std::int32_t>(random.between(0, tokens - 1));
    }
    return rows_of;
}

std::vector<ChannelCase> channel_cases(int count) {
    Random random(31);
    std::vector<ChannelCase> cases;
    for (int i = 0; i < count; ++i) cases.push_back(common_case(random, i));
    return cases;
}

std::vector<ChannelCase> gathered_cases(int count) {
    Random random(32);
    std::vector<ChannelCase> cases;
    for (int i = 0; i < count; ++i) {
        cases.push_back(common_case(random, i));
        choose_rows(random, cases.back());
    }
    return cases;
}

std::vector<ChannelCase> pair_cases(int count) {
    Random random(33);
    std::vector<ChannelCase> cases;
    for (int i = 0; i < count; ++i) {
        ChannelCase c = common_case(random, i);
        c.type = e4m3;
        c.pitch = c.hidden;
        c.from.block_rows = random.pick<std::int64_t>({1, 1, 1, 32, 128, 5});
        c.from.block_columns = random.pick<std::int64_t>({128, 128, 32, 16, 64, 1, 48, 7, c.hidden});
        c.from.scales = random_scale_layout(random);
        c.from.round = c.from.scales == reference::Scales::packed_ue8m0 || random.one_in(3);
        c.gap = random.pick<std::int64_t>({0, 0, 1, 4});
        if (random.one_in(2)) choose_rows(random, c);
        cases.push_back(c);
    }
    return cases;
}

}  // namespace tessera::test
