#include "tests/support/kernels/mapping_check.hpp"

#include <exception>
#include <fmt/core.h>

#include "tests/support/random.hpp"

namespace tessera::test {
namespace {

using Numbers = std::vector<std::int32_t>;

struct Expected {
    Numbers expert, token, slot, pos, start, end, count;

    explicit Expected(const MappingCase& c) : pos(c.ids.size(), -1) {
        std::int64_t used = 0;
        for (std::int64_t e = 0; e < c.experts; ++e) {
            start.push_back(static_cast<std::int32_t>(used));
            for (std::size_t i = 0; i < c.ids.size(); ++i) {
                if (c.ids[i] != e) continue;
                pos[i] = static_cast<std::int32_t>(used++);
                expert.push_back(static_cast<std::int32_t>(e));
                token.push_back(static_cast<std::int32_t>(static_cast<std::int64_t>(i) / c.topk));
                slot.push_back(static_cast<std::int32_t>(i));
            }
            used = (used + c.alignment - 1) / c.alignment * c.alignment;
            for (Numbers* rows : {&expert, &token, &slot}) rows->resize(static_cast<std::size_t>(used), -1);
            end.push_back(static_cast<std::int32_t>(used));
            count.push_back(end.back() - start.back());
        }
        if (c.rows >= 0)
            for (Numbers* rows : {&expert, &token, &slot}) rows->resize(static_cast<std::size_t>(c.rows), -1);
    }
};

std::string compare(const Stream& stream, const char* name, const Tensor& got, const Numbers& expected) {
    const Tensor here = got.to_host(stream);
    if (here.count() != static_cast<std::int64_t>(expected.size()))
        return fmt::format("{} has {} elements, not {}", name, here.count(), expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i)
        if (here.as<const std::int32_t>()[i] != expected[i])
            return fmt::format("{}[{}] is {}, not {}", name, i, here.as<const std::int32_t>()[i], expected[i]);
    return "";
}

std::string check(const Device& device, const MappingCase& c, moe::MappingOptions::Plan plan) {
    const Stream stream = device.stream();
    const Tensor ids = Tensor::from_host(stream, i64, {c.tokens, c.topk}, c.ids.data());
    moe::MappingOptions options{c.experts, c.alignment};
    options.plan = plan;
    if (c.rows >= 0) options.num_expanded_tokens = c.rows, options.force_no_sync = true;
    const moe::FusedMapping map = moe::get_fused_mapping(stream, ids, options);
    const Expected expected(c);
    if (map.num_tokens_per_expert_list != (c.rows >= 0 ? Numbers{} : expected.count))
        return "the list of counts is wrong";
    const std::tuple<const char*, const Tensor&, const Numbers&> all[] = {
        {"pos_to_expert", map.pos_to_expert, expected.expert},
        {"pos_to_token", map.pos_to_token, expected.token},
        {"pos_to_token_topk", map.pos_to_token_topk, expected.slot},
        {"token_topk_to_pos", map.token_topk_to_pos, expected.pos},
        {"expert_start", map.expert_start, expected.start},
        {"expert_end", map.expert_end, expected.end},
        {"num_tokens_per_expert", map.num_tokens_per_expert, expected.count}};
    for (const auto& [name, got, numbers] : all)
        if (const std::string wrong = compare(stream, name, got, numbers); !wrong.empty()) return wrong;
    return "";
}

}  // namespace

std::string MappingCase::text() const {
    return fmt::format("{} tokens x {} slots, {} experts, alignment {}, {} rows given", tokens, topk, experts,
                       alignment, rows);
}

std::vector<MappingCase> mapping_cases(int count) {
    Random random(41);
    std::vector<MappingCase> cases;
    for (int n = 0; n < count; ++n) {
        MappingCase c{};
        c.topk = random.pick<std::int64_t>({1, 2, 6, 8, 9});
        c.tokens = random.log_uniform(1, 600) - 1;
        c.experts = random.pick<std::int64_t>({1, 4, 9, 32, 72, 256, random.log_uniform(1, 1500)});
        c.alignment = random.pick<std::int64_t>({1, 1, 16, 64, 128, 7});
        c.rows = random.one_in(3) ? random.between(0, c.tokens * c.topk + c.experts * c.alignment) : -1;
        const bool strays = random.one_in(4), repeated = random.one_in(3);
        for (std::int64_t i = 0; i < c.tokens * c.topk; ++i) {
            std::int64_t id = random.one_in(3) ? -1 : random.between(0, c.experts - 1);
            if (repeated && random.one_in(2)) id = 0;
            if (strays && random.one_in(9))
                id = random.pick<std::int64_t>({c.experts, std::int64_t{1} << 32, INT64_MAX, -5});
            c.ids.push_back(id);
        }
        cases.push_back(std::move(c));
    }
    return cases;
}

std::vector<MappingCase> large_mapping_cases() {
    Random random(43);
    std::vector<MappingCase> cases;
    const auto add = [&](std::int64_t tokens, std::int64_t topk, std::int64_t experts, std::int64_t used) {
        MappingCase c{tokens, topk, experts, 128, -1, {}};
        for (std::int64_t i = 0; i < tokens * topk; ++i)
            c.ids.push_back(random.one_in(5) ? -1 : random.between(experts - used, experts - 1));
        cases.push_back(std::move(c));
    };
    add(4100, 8, 256, 256);    // two slots of a thread
    add(10000, 8, 72, 72);     // three
    add(5000, 9, 1024, 1024);  // the most experts of one launch
    add(4500, 8, 1025, 1025);  // one more
    add(2000, 3, 4096, 4096);
    add(5000, 7, 300, 1);  // all on one expert
    return cases;
}

std::string check_mapping(const Device& device, const MappingCase& c) {
    try {
        const std::string one = check(device, c, moe::MappingOptions::one_launch);
        if (!one.empty()) return c.text() + ": " + one;
        const std::string four = check(device, c, moe::MappingOptions::four_launches);
        return four.empty() ? "" : c.text() + ", in four launches: " + four;
    } catch (const std::exception& error) {
        return c.text() + ": " + error.what();
    }
}

}  // namespace tessera::test
