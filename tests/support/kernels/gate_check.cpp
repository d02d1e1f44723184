#include "tests/support/kernels/gate_check.hpp"

#include <cmath>
#include <cstring>
#include <exception>
#include <fmt/core.h>
#include <functional>
#include <tessera/moe.hpp>

#include "tests/support/kernels/guarded.hpp"

namespace tessera::test {
namespace {

using Bytes = std::vector<std::uint8_t>;

template <class T>
Bytes bytes_of(const std::vector<T>& numbers) {
    const auto* first = reinterpret_cast<const std::uint8_t*>(numbers.data());
    return {first, first + numbers.size() * sizeof(T)};
}
template <class T>
std::vector<T> numbers_of(const Bytes& bytes) {
    std::vector<T> numbers(bytes.size() / sizeof(T));
    if (!bytes.empty()) std::memcpy(numbers.data(), bytes.data(), bytes.size());
    return numbers;
}

template <class T>
std::string compare(const char* what, const std::vector<T>& got, const std::vector<T>& expected) {
    for (std::size_t i = 0; i < expected.size(); ++i)
        if (std::memcmp(&got[i], &expected[i], sizeof(T)) != 0)
            return fmt::format("{}: element {} is {}, not {}", what, i, got[i], expected[i]);
    return "";
}

std::string guarded(const std::string& text, const std::function<std::string()>& check) {
    try {
        const std::string wrong = check();
        return wrong.empty() ? "" : text + ": " + wrong;
    } catch (const std::exception& error) {
        return text + ": " + error.what();
    }
}

std::vector<float> slice(const std::vector<float>& all, std::int64_t row, std::int64_t columns) {
    return {all.begin() + row * columns, all.begin() + (row + 1) * columns};
}

std::string topk(const Device& device, const TopkCase& c) {
    const Stream stream = device.stream();
    const std::vector<float> scores = c.scores();
    const std::int64_t experts = c.groups * c.members;
    const Guarded in(stream, bytes_of(scores), 4 * c.shift), out(stream, 8 * c.tokens * c.topk, 8 * c.shift);
    const TensorView result = out.view(i64, {c.tokens, c.topk}, {c.topk, 1});
    if (c.best == 0)
        moe::topk_gate(stream, in.view(f32, {c.tokens, experts}, {experts, 1}), result);
    else
        moe::topk_sum_and_topk_group_idx(stream, in.view(f32, {c.tokens, c.groups, c.members}, {experts, c.members, 1}),
                                         result, {c.best, static_cast<int>(c.topk)});
    stream.synchronize();
    std::vector<std::int64_t> expected;
    for (std::int64_t t = 0; t < c.tokens; ++t) {
        const auto row = slice(scores, t, experts);
        const auto first =
            c.best == 0 ? reference::first_of(row, c.topk) : reference::best_groups(row, c.members, c.best, c.topk);
        expected.insert(expected.end(), first.begin(), first.end());
    }
    return compare("ids", numbers_of<std::int64_t>(out.read(stream)), expected);
}

/// Inputs of the gate, drawn from the case's seed.
struct GateInputs {
    std::vector<float> logits;
    std::vector<std::uint8_t> mask, fixed;
    std::vector<std::int64_t> unmapped;  // with the gaps between rows

    explicit GateInputs(const GateCase& c) {
        Random random(c.seed);
        const bool equal = random.one_in(8), wide = random.one_in(4);
        for (std::int64_t i = 0; i < c.tokens * c.rules.experts; ++i) {
            const double spread = wide ? 60 : 6;
            logits.push_back(equal ? 0.5f : static_cast<float>((random.unit() - 0.5) * spread));
        }
        for (std::int64_t t = 0; t < c.tokens; ++t)
            mask.push_back(!random.one_in(4)), fixed.push_back(random.one_in(2));
        for (std::int64_t i = 0; i < c.tokens * c.pitch; ++i)
            unmapped.push_back(random.one_in(15) ? random.pick<std::int64_t>({-1, c.rules.experts, INT64_MAX})
                                                 : random.between(0, c.rules.experts - 1));
    }
};

moe::GateOptions options_of(const GateCase& c) {
    const reference::GateRules& r = c.rules;
    moe::GateOptions o;
    o.num_topk = static_cast<int>(r.topk);
    if (r.groups > 1) o.num_groups = static_cast<int>(r.groups), o.num_topk_groups = static_cast<int>(r.chosen_groups);
    o.use_shared_as_routed = r.shared > 0, o.num_shared_experts = static_cast<int>(r.shared);
    o.routed_scaling_factor = r.factor;
    o.scoring = static_cast<moe::Scoring>(r.score);
    o.ep_rank = r.ep_rank, o.num_ep_ranks = r.num_ep_ranks, o.tp_rank = r.tp_rank, o.num_tp_ranks = r.num_tp_ranks;
    return o;
}

std::string compare_gate(const GateCase& c, const GateInputs& in, bool host, const std::vector<std::int64_t>& ids,
                         const std::vector<float>& weights, const std::vector<std::int64_t>& unmapped) {
    const auto slots = static_cast<std::size_t>(c.rules.topk + c.rules.shared);
    for (std::int64_t t = 0; t < c.tokens; ++t) {
        const auto row_at = static_cast<std::size_t>(t);
        std::optional<std::vector<std::int64_t>> fixed;
        const auto given = in.unmapped.begin() + t * c.pitch;
        if (c.fixed && in.fixed[row_at]) fixed.emplace(given, given + c.rules.topk);
        const auto row =
            reference::gate_row(c.rules, slice(in.logits, t, c.rules.experts), t, !c.mask || in.mask[row_at], fixed);
        if (row.close && !host && !fixed) continue;
        for (std::size_t k = 0; k < slots; ++k) {
            const std::size_t i = row_at * slots + k;
            if (ids[i] != row.ids[k])
                return fmt::format("token {} slot {}: expert {} instead of {}", t, k, ids[i], row.ids[k]);
            if (!(std::abs(static_cast<double>(weights[i]) - row.weights[k]) <= 4e-6 * row.weights[k] + 1e-30))
                return fmt::format("token {} slot {}: weight {} instead of {}", t, k, weights[i], row.weights[k]);
        }
        for (std::int64_t k = 0; c.unmapped && k < c.pitch; ++k) {
            const std::int64_t expected = k < c.rules.topk ? row.unmapped[static_cast<std::size_t>(k)] : given[k];
            if (unmapped[static_cast<std::size_t>(t * c.pitch + k)] != expected)
                return fmt::format("token {}: unmapped slot {} is not {}", t, k, expected);
        }
    }
    return "";
}

std::string gate(const Device& device, const GateCase& c) {
    const Stream stream = device.stream();
    const GateInputs in(c);
    const reference::GateRules& r = c.rules;
    const std::int64_t logical = r.experts + r.shared, slots = r.topk + r.shared;
    const Guarded logits(stream, bytes_of(in.logits)), bias(stream, bytes_of(r.bias)), mask(stream, in.mask),
        fixed(stream, in.fixed), map(stream, bytes_of(r.map)), count(stream, bytes_of(r.count)),
        unmapped(stream, bytes_of(in.unmapped)), ids(stream, 8 * c.tokens * slots),
        weights(stream, 4 * c.tokens * slots);
    moe::GateOptions o = options_of(c);
    if (c.mask) o.mask = mask.view(boolean, {c.tokens}, {1});
    if (c.fixed) o.fix_routing_mask = fixed.view(boolean, {c.tokens}, {1});
    if (c.unmapped) o.unmapped_topk_idx = unmapped.view(i64, {c.tokens, r.topk}, {c.pitch, 1});
    if (r.replicas > 0) {
        o.to_physical_map = map.view(i32, {logical, r.replicas}, {r.replicas, 1});
        o.logical_count = count.view(i32, {logical}, {1});
    }
    moe::top2_sum_gate(stream, logits.view(f32, {c.tokens, r.experts}, {r.experts, 1}),
                       bias.view(f32, {r.experts}, {1}), ids.view(i64, {c.tokens, slots}, {slots, 1}),
                       weights.view(f32, {c.tokens, slots}, {slots, 1}), o);
    stream.synchronize();
    return compare_gate(c, in, device.is_host(), numbers_of<std::int64_t>(ids.read(stream)),
                        numbers_of<float>(weights.read(stream)), numbers_of<std::int64_t>(unmapped.read(stream)));
}

std::string mask_by_tp(const Device& device, const IdsCase& c) {
    const Stream stream = device.stream();
    const std::vector<std::int64_t> ids = c.ids();
    const Guarded in(stream, bytes_of(ids), 8 * c.shift), out(stream, 8 * c.tokens * c.topk);
    const Shape extents{c.tokens, c.topk}, strides{c.topk, 1};
    moe::mask_indices_by_tp(stream, in.view(i64, extents, strides), out.view(i64, extents, strides),
                            {c.groups, c.ranks, c.tp_rank, c.tp_ranks});
    stream.synchronize();
    std::vector<std::int64_t> expected;
    for (std::int64_t id : ids)
        expected.push_back(reference::masked_by_tp(id, c.groups / c.ranks, c.tp_rank, c.tp_ranks));
    return compare("ids", numbers_of<std::int64_t>(out.read(stream)), expected);
}

std::string unique(const Device& device, const IdsCase& c) {
    const Stream stream = device.stream();
    std::vector<std::int64_t> ids = c.ids();
    const Guarded in(stream, bytes_of(ids), 8 * c.shift);
    moe::inplace_unique_group_indices(stream, in.view(i64, {c.tokens, c.topk}, {c.topk, 1}), 128);
    stream.synchronize();
    std::vector<std::int64_t> expected = ids;
    for (std::size_t i = 0; i < ids.size(); ++i)
        for (std::size_t j = i - i % static_cast<std::size_t>(c.topk); j < i; ++j)
            if (ids[i] >= 0 && ids[j] == ids[i]) expected[i] = -1;
    return compare("ids", numbers_of<std::int64_t>(in.read(stream)), expected);
}

std::string counts(const Device& device, const IdsCase& c) {
    const Stream stream = device.stream();
    const std::vector<std::int64_t> ids = c.ids();
    const std::int64_t aux = 1 + static_cast<std::int64_t>(c.seed % 3);
    const Guarded in(stream, bytes_of(ids), 8 * c.shift), out(stream, 4 * c.groups), load(stream, 4 * c.groups);
    const TensorView view = in.view(i64, {c.tokens, c.topk}, {c.topk, 1});
    moe::group_count(stream, view, out.view(i32, {c.groups}, {1}));
    moe::aux_fi(stream, view, load.view(f32, {c.groups}, {1}), aux);
    stream.synchronize();
    std::vector<std::int32_t> expected(static_cast<std::size_t>(c.groups));
    for (std::int64_t id : ids)
        if (id >= 0 && id < c.groups) ++expected[static_cast<std::size_t>(id)];
    std::vector<float> balance;
    for (std::int32_t n : expected)
        balance.push_back(c.tokens == 0 ? 0.0f : static_cast<float>(n * c.groups) / static_cast<float>(c.tokens * aux));
    const std::string wrong = compare("counts", numbers_of<std::int32_t>(out.read(stream)), expected);
    return wrong.empty() ? compare("f", numbers_of<float>(load.read(stream)), balance) : wrong;
}

std::string normalize(const Device& device, const IdsCase& c) {
    const Stream stream = device.stream();
    Random random(c.seed);
    std::vector<float> weights(static_cast<std::size_t>(c.tokens * c.topk));
    for (float& w : weights) {
        w = static_cast<float>(random.unit());
        if (random.one_in(9)) w = random.pick({0.0f, -0.5f, 1e-30f, 1e30f, INFINITY});
    }
    const Guarded in(stream, bytes_of(weights), 4 * c.shift), sums(stream, 4 * c.tokens),
        out(stream, 4 * c.tokens * c.topk);
    const Shape extents{c.tokens, c.topk}, strides{c.topk, 1};
    moe::normalize_weight(stream, in.view(f32, extents, strides), sums.view(f32, {c.tokens}, {1}),
                          out.view(f32, extents, strides));
    stream.synchronize();
    const auto got = numbers_of<float>(out.read(stream)), got_sums = numbers_of<float>(sums.read(stream));
    for (std::size_t t = 0; t < got_sums.size(); ++t) {
        float sum = 1e-20f;
        for (std::size_t k = 0; k < static_cast<std::size_t>(c.topk); ++k) sum = sum + weights[t * c.topk + k];
        if (std::memcmp(&sum, &got_sums[t], 4) != 0) return fmt::format("denominator {} is not {}", got_sums[t], sum);
        for (std::size_t i = t * c.topk; i < (t + 1) * static_cast<std::size_t>(c.topk); ++i) {
            const float expected = weights[i] / sum;
            if (std::memcmp(&expected, &got[i], 4) != 0 && !(std::isnan(expected) && std::isnan(got[i])))
                return fmt::format("element {} is {}, not {}", i, got[i], expected);
        }
    }
    return "";
}

}  // namespace

std::string check_topk(const Device& device, const TopkCase& c) {
    return guarded(c.text(), [&] { return topk(device, c); });
}
std::string check_top2_sum_gate(const Device& device, const GateCase& c) {
    return guarded(c.text(), [&] { return gate(device, c); });
}
std::string check_mask_by_tp(const Device& device, const IdsCase& c) {
    return guarded(c.text(), [&] { return mask_by_tp(device, c); });
}
std::string check_unique(const Device& device, const IdsCase& c) {
    return guarded(c.text(), [&] { return unique(device, c); });
}
std::string check_counts(const Device& device, const IdsCase& c) {
    return guarded(c.text(), [&] { return counts(device, c); });
}
std::string check_normalize(const Device& device, const IdsCase& c) {
    return guarded(c.text(), [&] { return normalize(device, c); });
}

}  // namespace tessera::test
