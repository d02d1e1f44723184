#include "tests/support/reference/gate.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace tessera::reference {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

bool before(float a, float b) { return std::isnan(b) ? !std::isnan(a) : a > b; }

float exponential(float x) { return static_cast<float>(std::exp(static_cast<double>(x))); }

float score_of(Score kind, float x) {
    if (kind == Score::sigmoid) return 1.0f / (1.0f + exponential(-x));
    const float soft = static_cast<float>(std::log1p(static_cast<double>(exponential(x))));
    return std::sqrt(x > 20.0f ? x : soft);
}

std::vector<double> softmax_of(const std::vector<float>& logits) {
    const float top = *std::max_element(logits.begin(), logits.end());
    std::vector<double> powers;
    for (float x : logits) powers.push_back(std::exp(static_cast<double>(x - top)));
    const double sum = std::accumulate(powers.begin(), powers.end(), 0.0);
    for (double& p : powers) p /= sum;
    return powers;
}

}  // namespace

std::vector<std::int64_t> first_of(const std::vector<float>& values, std::int64_t count) {
    std::vector<std::int64_t> order(values.size());
    std::iota(order.begin(), order.end(), 0);
    std::sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
        return before(values[a], values[b]) || (!before(values[b], values[a]) && a < b);
    });
    order.resize(static_cast<std::size_t>(count));
    return order;
}

std::vector<std::int64_t> best_groups(const std::vector<float>& values, std::int64_t members, int best,
                                      std::int64_t count) {
    std::vector<float> sums;
    for (std::size_t g = 0; g < values.size(); g += static_cast<std::size_t>(members)) {
        float first = -infinity, second = -infinity;
        for (std::int64_t m = 0; m < members; ++m) {
            const float v = values[g + static_cast<std::size_t>(m)];
            if (v > first)
                second = first, first = v;
            else if (v > second)
                second = v;
        }
        const float sum = best == 1 ? first : first + second;
        sums.push_back(std::isnan(sum) ? -infinity : sum);
    }
    return first_of(sums, count);
}

std::int64_t masked_by_tp(std::int64_t id, std::int64_t per, std::int64_t tp_rank, std::int64_t num_tp_ranks) {
    if (id < 0 || (id / per) % num_tp_ranks != tp_rank) return -1;
    return id / per / num_tp_ranks * per + id % per;
}

GateRow gate_row(const GateRules& r, const std::vector<float>& logits, std::int64_t token, bool routed,
                 const std::optional<std::vector<std::int64_t>>& fixed) {
    const auto slots = static_cast<std::size_t>(r.topk + r.shared);
    GateRow row{std::vector<std::int64_t>(slots, -1), std::vector<double>(slots, 0.0),
                std::vector<std::int64_t>(static_cast<std::size_t>(r.topk), -1)};
    if (!routed) return row;
    const std::vector<double> soft = r.score == Score::softmax ? softmax_of(logits) : std::vector<double>{};
    std::vector<double> scores;
    std::vector<float> keys;
    for (std::size_t e = 0; e < logits.size(); ++e) {
        const float s = r.score == Score::softmax ? 0.0f : score_of(r.score, logits[e]);
        scores.push_back(r.score == Score::softmax ? soft[e] : static_cast<double>(s));
        keys.push_back((r.score == Score::softmax ? logits[e] : s) + r.bias[e]);
    }
    if (r.chosen_groups < r.groups) {
        const std::int64_t members = r.experts / r.groups;
        std::vector<bool> open(static_cast<std::size_t>(r.groups));
        for (std::int64_t g : best_groups(keys, members, 2, r.chosen_groups)) open[static_cast<std::size_t>(g)] = true;
        for (std::size_t e = 0; e < keys.size(); ++e)
            if (!open[e / static_cast<std::size_t>(members)]) keys[e] = std::numeric_limits<float>::quiet_NaN();
    }
    const auto order = first_of(keys, std::min<std::int64_t>(r.topk + 1, r.experts));
    for (std::size_t i = 1; i < order.size(); ++i)
        row.close = row.close || std::abs(keys[order[i - 1]] - keys[order[i]]) < 2e-6f;
    row.unmapped.assign(order.begin(), order.begin() + r.topk);
    if (fixed) row.unmapped = *fixed;
    double sum = 1e-20;
    const auto valid = [&](std::int64_t e) { return e >= 0 && e < r.experts; };
    for (std::int64_t e : row.unmapped) sum += valid(e) ? scores[static_cast<std::size_t>(e)] : 0.0;
    const std::int64_t physical = r.experts + (r.replicas > 0 ? r.replicas - 1 : 0), per = physical / r.num_ep_ranks;
    for (std::size_t k = 0; k < slots; ++k) {
        const bool is_shared = k >= static_cast<std::size_t>(r.topk);
        const std::int64_t e = is_shared ? r.experts + static_cast<std::int64_t>(k) - r.topk : row.unmapped[k];
        if (!is_shared && !valid(e)) continue;
        std::int64_t q = e;
        if (r.replicas > 0) {
            const std::int64_t n = r.count[static_cast<std::size_t>(e)];
            if (n < 1 || n > r.replicas) continue;
            q = r.map[static_cast<std::size_t>(e * r.replicas + (r.ep_rank + token * 23333) % n)];
        }
        row.ids[k] = masked_by_tp(q, per, r.tp_rank, r.num_tp_ranks);
        row.weights[k] = is_shared ? 1.0 : scores[static_cast<std::size_t>(e)] / sum * static_cast<double>(r.factor);
    }
    return row;
}

}  // namespace tessera::reference
