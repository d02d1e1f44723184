#include <algorithm>
#include <fmt/core.h>

#include "tests/support/extents.hpp"
#include "tests/support/shapes.hpp"

namespace tessera::test {
namespace {

using reference::Format;
using reference::Scales;

/// A cast to the format; block sizes are the caller's.
CastCase cast_to(Random& random, int index, Format format) {
    CastCase c{};
    const std::int64_t pack = reference::pack_of(format);
    c.format = format;
    choose_extents(random, index, pack, c.tokens, c.hidden);
    c.pitch = random_pitch(random, c.hidden);
    c.shift = random_shift(random);
    c.shift_out = random.one_in(4) ? random.between(1, 9) * (format == Format::e5m6 ? 4 : 1) : 0;
    c.type = random.pick({bf16, f32});
    c.scales = random_scale_layout(random);
    c.scale_gap = c.scales != Scales::row_major && random.one_in(3) ? 4 * random.between(1, 3) : 0;
    c.round = c.scales == Scales::packed_ue8m0 || random.one_in(2);
    c.block_rows = 1;
    c.seed = random.next();
    return c;
}

QuantizedCase quantized(Random& random, int index, Format format) {
    QuantizedCase c{};
    choose_extents(random, index, reference::pack_of(format), c.tokens, c.hidden);
    if (c.tokens * c.hidden > 150'000) c.tokens = random.between(1, std::max<std::int64_t>(1, 150'000 / c.hidden));
    c.shift = random.one_in(4) ? random.between(1, 9) * (format == Format::e5m6 ? 4 : 1) : 0;
    c.from.format = format;
    c.from.scales = random_scale_layout(random);
    c.from.round = c.from.scales == Scales::packed_ue8m0 || random.one_in(2);
    c.scale_gap = random.one_in(3) ? random.between(1, 9) : 0;
    c.seed = random.next();
    return c;
}

}  // namespace

std::string QuantizedCase::text() const {
    return fmt::format("{}x{} shift {} from {} gap {} seed {}", tokens, hidden, shift, text_of(from), scale_gap, seed);
}
std::string RequantizeCase::text() const { return in.text() + " to " + text_of(rule); }
std::string CastBackCase::text() const { return fmt::format("{} to {} shift {}", in.text(), name_of(out), shift); }

std::vector<CastCase> packed_token_cast_cases(int count) {
    Random random(4);
    std::vector<CastCase> cases;
    for (int i = 0; i < count; ++i) {
        const Format format = i % 3 == 2 ? Format::e5m6 : Format::e2m1;
        CastCase c = cast_to(random, i, format);
        c.block_columns =
            format == Format::e5m6 ? c.hidden : random.pick<std::int64_t>({16, 32, 32, 64, 128, c.hidden});
        cases.push_back(c);
    }
    return cases;
}

std::vector<CastCase> packed_block_cast_cases(int count) {
    Random random(5);
    std::vector<CastCase> cases;
    for (int i = 0; i < count; ++i) {
        CastCase c = cast_to(random, i, Format::e2m1);
        c.block_rows = random.pick<std::int64_t>({32, 128});
        c.block_columns = random.pick<std::int64_t>({32, 128});
        cases.push_back(c);
    }
    return cases;
}

std::vector<CastCase> precomputed_cases(int count) {
    Random random(6);
    std::vector<CastCase> cases;
    for (int i = 0; i < count; ++i) {
        CastCase c = cast_to(random, i, random.pick({Format::e4m3, Format::e2m1}));
        c.scales = Scales::row_major;
        c.scale_gap = 0;
        c.block_columns = random.pick<std::int64_t>({16, 32, 64, 128, c.hidden});
        cases.push_back(c);
    }
    return cases;
}

std::vector<CastCase> precomputed_block_cases(int count) {
    std::vector<CastCase> cases = precomputed_cases(count);
    Random random(12);
    for (CastCase& c : cases) {
        c.block_rows = random.pick<std::int64_t>({32, 128});
        c.block_columns = random.pick<std::int64_t>({32, 128});
    }
    return cases;
}

std::vector<RequantizeCase> requantize_cases(int count) {
    Random random(7);
    std::vector<RequantizeCase> cases;
    for (int i = 0; i < count; ++i) {
        RequantizeCase c{};
        c.rule.format = random.pick({Format::e4m3, Format::e2m1});
        c.in = quantized(random, i, random.pick({Format::e4m3, Format::e2m1}));
        c.in.hidden = round_up(c.in.hidden, reference::pack_of(c.rule.format));
        c.rule.block_rows = 1;
        c.rule.block_columns = random.pick<std::int64_t>({16, 32, 64, 128, 128, c.in.hidden});
        c.rule.scales = random_scale_layout(random);
        c.rule.round = c.rule.scales == Scales::packed_ue8m0 || random.one_in(2);
        c.in.from.block_rows = random.pick<std::int64_t>({1, 1, 3, 32, 32, 96, 128, 128, 1000});
        c.in.from.block_columns = random.pick<std::int64_t>({1, 3, 8, 16, 32, 32, 48, 64, 100, 128, 128, 256, 320, 384,
                                                             512, 2048, c.in.hidden, c.in.hidden + 77, 100'000});
        cases.push_back(c);
    }
    return cases;
}

std::vector<CastBackCase> cast_back_cases(int count) {
    Random random(8);
    std::vector<CastBackCase> cases;
    for (int i = 0; i < count; ++i) {
        CastBackCase c{};
        c.in = quantized(random, i, random.pick({Format::e4m3, Format::e2m1, Format::e5m6}));
        c.in.from.block_rows = random.pick<std::int64_t>({1, 1, 1, 2, 3, 7, 32, 128, 128, 1000});
        c.in.from.block_columns = random.pick<std::int64_t>({1, 2, 3, 7, 16, 32, 33, 48, 64, 100, 128, 128, 128, 200,
                                                             1000, 3000, c.in.hidden, c.in.hidden, c.in.hidden + 1});
        c.out = random.pick({bf16, f32});
        c.shift = random_shift(random);
        cases.push_back(c);
    }
    return cases;
}

}  // namespace tessera::test
