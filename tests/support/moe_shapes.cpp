#include "tests/support/moe_shapes.hpp"

#include <algorithm>
#include <fmt/core.h>
#include <limits>
#include <numeric>

#include "tests/support/extents.hpp"

namespace tessera::test {
namespace {

MoeShape common_shape(Random& random, int index) {
    MoeShape s{};
    static const auto edges = neighbours({4, 8, 16, 32, 64, 128, 256, 512, 576, 1024, 2048, 2560, 3072}, 4000);
    s.hidden = index % 2 == 0 ? random.pick_from(edges) : random.log_uniform(1, 3000);
    if (index % 5 == 0) s.hidden = random.pick<std::int64_t>({64, 256, 576, 1024, 2048, 2560, 3072, 7168});
    s.topk = random.pick<std::int64_t>({1, 2, 3, 6, 6, 8, 9, 17, 20});
    s.tokens = random.log_uniform(1, std::clamp<std::int64_t>(120'000 / (s.hidden * s.topk), 4, 200)) - 1;
    s.positions = random.log_uniform(1, s.tokens * s.topk + 40) - 1;
    s.pitch = random_pitch(random, s.hidden);
    s.shift = random_shift(random);
    s.strays = random.one_in(8);
    s.seed = random.next();
    return s;
}

}  // namespace

std::string MoeShape::text() const {
    return fmt::format("{} tokens x {} slots to {} rows of {} {} pitch {} shift {}{} seed {}", tokens, topk, positions,
                       hidden, name_of(type), pitch, shift, strays ? " with strays" : "", seed);
}

reference::Mapping MoeShape::mapping() const {
    Random random(seed);
    reference::Mapping map{topk, std::vector<std::int32_t>(tokens * topk, -1), std::vector<std::int32_t>(positions)};
    std::vector<std::int32_t> rows(positions);
    std::iota(rows.begin(), rows.end(), 0);
    for (std::size_t i = rows.size(); i > 1; --i) std::swap(rows[i - 1], rows[random.next() % i]);
    const int sparse = random.pick({1, 2, 5});
    for (std::int32_t& slot : map.token_topk_to_pos) {
        if (strays && random.one_in(6)) {
            slot = random.pick({static_cast<std::int32_t>(positions), std::numeric_limits<std::int32_t>::max(),
                                std::numeric_limits<std::int32_t>::min(), std::int32_t{-7}});
        } else if (!rows.empty() && random.one_in(sparse)) {
            slot = rows.back();
            rows.pop_back();
        }
    }
    for (std::int32_t& expert : map.pos_to_expert) expert = static_cast<std::int32_t>(random.between(0, 30));
    for (std::int32_t row : rows)
        if (!random.one_in(5))
            map.pos_to_expert[row] = random.pick({-1, -1, -5, std::numeric_limits<std::int32_t>::min()});
    return map;
}

std::string MoeShape::stray() const {
    const std::vector<std::int32_t> slots = mapping().token_topk_to_pos;
    for (std::size_t i = 0; i < slots.size(); ++i)
        if (slots[i] >= positions)
            return fmt::format("token_topk_to_pos[{}, {}] is {}, but a position is a row of the buffer",
                               static_cast<std::int64_t>(i) / topk, static_cast<std::int64_t>(i) % topk, slots[i]);
    return "";
}

std::vector<ExpandCase> expand_cases(int count) {
    Random random(21);
    std::vector<ExpandCase> cases;
    for (int i = 0; i < count; ++i) {
        ExpandCase c{common_shape(random, i),
                     random.pick({ExpandCase::Scales::none, ExpandCase::Scales::rows, ExpandCase::Scales::columns,
                                  ExpandCase::Scales::columns}),
                     false, random.pick<std::int64_t>({32, 128, 128, 16, 7}), random.pick<std::int64_t>({0, 0, 4, 12})};
        c.type = random.pick({bf16, f32, e4m3, e4m3, u8, f16, i32});
        c.packed = c.scales == ExpandCase::Scales::columns && random.one_in(2);
        cases.push_back(c);
    }
    return cases;
}

std::vector<ReduceCase> reduce_cases(int count) {
    Random random(22);
    std::vector<ReduceCase> cases;
    for (int i = 0; i < count; ++i) {
        ReduceCase c{common_shape(random, i), random.one_in(2), random.one_in(2), random.one_in(2), false};
        c.type = random.pick({bf16, f32});
        c.sf = c.to_e4m3 && random.one_in(2);
        cases.push_back(c);
    }
    return cases;
}

}  // namespace tessera::test
