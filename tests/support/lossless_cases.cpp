#include "tests/support/lossless_cases.hpp"

#include <algorithm>
#include <fmt/core.h>

#include "tests/support/extents.hpp"
#include "tests/support/inputs.hpp"

namespace tessera::test {
namespace {

using reference::Format;
using reference::Quantized;
using reference::Scales;

std::int64_t up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

/// Puts block (m, k)'s scale in its place, of whatever bits; packed scales keep the exponent.
void set_scale(Quantized& q, const LosslessCase& c, std::int64_t m, std::int64_t k, std::uint32_t bits) {
    std::uint32_t& word = q.scales[scale_word(m, k, c.tokens, c.hidden, c.from)];
    if (c.from.scales != Scales::packed_ue8m0) {
        word = bits;
        return;
    }
    const int shift = static_cast<int>(8 * (k % 4));
    word = (word & ~(0xFFu << shift)) | (bits >> 23 & 0xFF) << shift;
}

/// Exponents within reach of the largest of their new block, which is some block's.
void spread_scales(Quantized& q, const LosslessCase& c, Random& random) {
    const std::int64_t down = c.to.block_rows / c.from.block_rows, across = c.to.block_columns / c.from.block_columns;
    const std::int64_t columns = up(c.hidden, c.to.block_columns);
    std::vector<std::int64_t> tops;
    for (std::int64_t i = 0; i < up(c.tokens, c.to.block_rows) * columns; ++i)
        tops.push_back(random.one_in(8) ? random.pick<std::int64_t>({12, 13, 254, 253}) : random.between(12, 254));
    for (std::int64_t m = 0; m < up(c.tokens, c.from.block_rows); ++m)
        for (std::int64_t k = 0; k < up(c.hidden, c.from.block_columns); ++k) {
            const std::int64_t top = tops[m / down * columns + k / across];
            const bool largest = m % down == 0 && k % across == 0;
            const std::int64_t e = largest ? top : top - random.between(0, 11);
            set_scale(q, c, m, k, static_cast<std::uint32_t>(e) << 23);
        }
}

/// Zeros of both signs in some blocks, whose scale may then be the least.
void clear_blocks(std::vector<std::uint16_t>& codes, Quantized& q, const LosslessCase& c, Random& random) {
    const std::int64_t a = c.from.block_rows, b = c.from.block_columns;
    for (std::int64_t m = 0; m < up(c.tokens, a); ++m)
        for (std::int64_t k = 0; k < up(c.hidden, b); ++k) {
            if (!random.one_in(6)) continue;
            for (std::int64_t t = m * a; t < std::min((m + 1) * a, c.tokens); ++t)
                for (std::int64_t h = k * b; h < std::min((k + 1) * b, c.hidden); ++h) codes[t * c.hidden + h] &= 8;
            if (random.one_in(2)) set_scale(q, c, m, k, static_cast<std::uint32_t>(random.between(0, 1)) << 23);
        }
}

void break_scales(Quantized& q, const LosslessCase& c, Random& random) {
    for (std::int64_t n = random.between(1, 3); n > 0; --n) {
        const std::int64_t m = random.between(0, up(c.tokens, c.from.block_rows) - 1);
        const std::int64_t k = random.between(0, up(c.hidden, c.from.block_columns) - 1);
        const auto e = static_cast<std::uint32_t>(random.between(1, 254));
        const std::uint32_t bits = random.pick<std::uint32_t>(
            {0, 255u << 23, e << 23, e << 23, 1u << 23, 7u << 23, e << 23 | 1, e << 23 | 0x400000, e << 23 | 1u << 31});
        set_scale(q, c, m, k, bits);
    }
}

}  // namespace

std::string LosslessCase::text() const {
    return fmt::format("{}x{} {} gap {} shift {} to {} gap {} shift {}{} seed {}", tokens, hidden, text_of(from),
                       scale_gap, shift, text_of(to), out_scale_gap, out_shift, broken ? " broken" : "", seed);
}

reference::Quantized LosslessCase::input() const {
    Random random(seed);
    Quantized q{{}, std::vector<std::uint32_t>(static_cast<std::size_t>(scale_words(tokens, hidden, from)))};
    auto codes = reference::unpacked(Format::e2m1, random_codes(Format::e2m1, tokens * hidden, seed));
    spread_scales(q, *this, random);
    clear_blocks(codes, q, *this, random);
    if (broken) break_scales(q, *this, random);
    q.codes = reference::packed(Format::e2m1, codes);
    return q;
}

std::vector<LosslessCase> lossless_cases(int count) {
    Random random(11);
    std::vector<LosslessCase> cases;
    for (int i = 0; i < count; ++i) {
        LosslessCase c{};
        choose_extents(random, i, 2, c.tokens, c.hidden);
        if (c.tokens * c.hidden > 150'000) c.tokens = random.between(1, std::max<std::int64_t>(1, 150'000 / c.hidden));
        const bool usual = random.one_in(2);
        c.from = {usual ? 1 : random.pick<std::int64_t>({1, 2, 8, 32, 128}),
                  usual ? 32 : random.pick<std::int64_t>({1, 2, 4, 16, 32, 64, 128, 512}), random_scale_layout(random),
                  true, Format::e2m1};
        c.to = {c.from.block_rows << random.pick({0, 0, 1, 5, 5, 7, 9}),
                c.from.block_columns << random.pick({0, 0, 1, 2, 2, 3, 7, 9}), random_scale_layout(random), true,
                Format::e4m3};
        c.scale_gap = c.from.scales != Scales::row_major && random.one_in(3) ? random.between(1, 9) : 0;
        c.out_scale_gap = c.to.scales != Scales::row_major && random.one_in(3) ? 4 * random.between(1, 3) : 0;
        c.shift = random_shift(random);
        c.out_shift = random_shift(random);
        c.broken = random.one_in(3) && c.tokens > 0;
        c.seed = random.next();
        cases.push_back(c);
    }
    return cases;
}

}  // namespace tessera::test
