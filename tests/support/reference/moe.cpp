#include "tests/support/reference/moe.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "tests/support/reference/formats.hpp"

namespace tessera::reference {

std::vector<std::uint8_t> expand(const Rows& x, const Mapping& map, std::vector<std::uint8_t> before) {
    std::vector<std::uint8_t>& out = before;
    for (std::int64_t p = 0; p < map.positions(); ++p)
        if (map.pos_to_expert[p] < 0) std::fill_n(out.begin() + p * x.bytes, x.bytes, std::uint8_t{0});
    for (std::int64_t t = 0; t < x.count; ++t)
        for (std::int64_t k = 0; k < map.topk; ++k) {
            const std::int64_t pos = map.token_topk_to_pos[t * map.topk + k];
            if (pos >= 0 && pos < map.positions()) std::copy_n(x.row(t), x.bytes, out.begin() + pos * x.bytes);
        }
    return before;
}

namespace {

float element(const Reduction& r, std::int64_t row, std::int64_t column) {
    const std::int64_t i = row * r.pitch + column;
    if (r.bf16) {
        std::uint16_t bits;
        std::memcpy(&bits, r.x + 2 * i, 2);
        return bf16_value(bits);
    }
    float value;
    std::memcpy(&value, r.x + 4 * i, 4);
    return value;
}

float sum(const Reduction& r, const Mapping& map, std::int64_t token, std::int64_t column) {
    float total = 0.0f;
    for (std::int64_t k = 0; k < map.topk; ++k) {
        const std::int64_t slot = token * map.topk + k, pos = map.token_topk_to_pos[slot];
        if (pos < 0 || pos >= map.positions()) continue;
        float factor = r.weights ? (*r.weights)[slot] : 1.0f;
        if (r.x_sf) factor = factor * (*r.x_sf)[pos];
        total = std::fma(element(r, pos, column), factor, total);
    }
    return r.scale ? total * r.scale->front() : total;
}

}  // namespace

std::vector<std::uint8_t> reduce(const Reduction& r, const Mapping& map) {
    const std::int64_t tokens = static_cast<std::int64_t>(map.token_topk_to_pos.size()) / map.topk;
    const std::int64_t bytes = r.out == Reduction::Out::e4m3 ? 1 : r.bf16 ? 2 : 4;
    std::vector<std::uint8_t> out(tokens * r.hidden * bytes);
    for (std::int64_t i = 0; i < tokens * r.hidden; ++i) {
        const float value = sum(r, map, i / r.hidden, i % r.hidden);
        const std::uint16_t half = bytes == 2 ? (std::isnan(value) ? 0x7FFF : bf16_nearest(value)) : 0;
        if (bytes == 1)
            out[i] = e4m3_nearest(value);
        else
            std::memcpy(&out[i * bytes], bytes == 2 ? static_cast<const void*>(&half) : &value, bytes);
    }
    return out;
}

}  // namespace tessera::reference
