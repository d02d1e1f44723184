#include "dsl/lower/bank_conflicts.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "dsl/base/error.hpp"
#include "dsl/ir/roles.hpp"
#include "dsl/ir/uniform.hpp"
#include "dsl/ir/walk.hpp"
#include "dsl/lower/expressions.hpp"

namespace tessera::lower {

namespace {

constexpr int banks = 32, word_bytes = 4, warp = 32;

/// Thrown by an address that only the data tell.
struct DependsOnData {};

/// Evaluates offsets and predicates of one lane. Parameters stand for large sizes, so that edges do not matter; what
/// all threads have loaded or carry round a loop alike, such as the slot of a pipeline, for 0.
class Lane {
public:
    Lane(const ir::Program& p, const ir::Uniformity& uniformity, std::int64_t thread)
        : uniformity_(uniformity), thread_(thread), locals_(p.locals.size(), nullptr) {}
    void set_thread(std::int64_t thread) { thread_ = thread; }
    void bind(const ir::Let& let) { locals_[static_cast<std::size_t>(let.local)] = let.value; }

    std::int64_t value(ir::Ref n) const {
        std::int64_t number = 0;
        if (constant_value(n, number)) return number;
        if (n->as<ir::ThreadIndex>()) return thread_;
        if (n->as<ir::LinearBlock>() || n->as<ir::LoopIndex>()) return 0;
        if (n->as<ir::Parameter>()) return std::int64_t{1} << 24;
        if (const auto* l = n->as<ir::Local>()) return value(locals_[static_cast<std::size_t>(l->local)]);
        if (const auto* c = n->as<ir::Cast>()) return value(c->value);
        if (const auto* b = n->as<ir::Binary>()) return binary(b->op, value(b->a), value(b->b));
        if (n->as<ir::Register>() && uniformity_.uniform(n)) return 0;
        throw DependsOnData();
    }

private:
    static std::int64_t binary(ir::BinaryOp op, std::int64_t a, std::int64_t b) {
        switch (op) {
            case ir::BinaryOp::add: return a + b;
            case ir::BinaryOp::sub: return a - b;
            case ir::BinaryOp::mul: return a * b;
            case ir::BinaryOp::div: return b ? a / b : 0;
            case ir::BinaryOp::mod: return b ? a % b : 0;
            case ir::BinaryOp::bit_and: return a & b;
            case ir::BinaryOp::bit_or: return a | b;
            case ir::BinaryOp::bit_xor: return a ^ b;
            case ir::BinaryOp::shl: return a << b;
            case ir::BinaryOp::shr: return a >> b;
            case ir::BinaryOp::lt: return a < b;
            case ir::BinaryOp::eq: return a == b;
            default: throw DependsOnData();
        }
    }
    const ir::Uniformity& uniformity_;
    std::int64_t thread_;
    std::vector<ir::Ref> locals_;
};

/// Passes for the lanes' accesses, and what they would be if no two words met in a bank.
std::pair<int, int> passes_of(const std::vector<std::optional<std::int64_t>>& addresses, int bytes) {
    const std::size_t group = static_cast<std::size_t>(bytes <= word_bytes ? warp : warp * word_bytes / bytes);
    int passes = 0, best = 0;
    for (std::size_t first = 0; first < addresses.size(); first += group) {
        std::map<std::int64_t, std::set<std::int64_t>> words;  // by bank
        for (std::size_t i = first; i < std::min(first + group, addresses.size()); ++i) {
            if (!addresses[i]) continue;
            const std::int64_t last = (*addresses[i] + bytes - 1) / word_bytes;
            for (std::int64_t word = *addresses[i] / word_bytes; word <= last; ++word) words[word % banks].insert(word);
        }
        std::size_t most = 0, all = 0;
        for (const auto& [bank, set] : words) {
            most = std::max(most, set.size());
            all += set.size();
        }
        passes += static_cast<int>(most);
        best += static_cast<int>((all + banks - 1) / banks);
    }
    return {passes, best};
}

}  // namespace

std::vector<SharedAccess> bank_conflicts(const ir::Program& lowered) {
    const ir::Uniformity uniformity(lowered);
    std::vector<Lane> lanes;
    for (int t = 0; t < std::min(warp, lowered.threads); ++t) lanes.emplace_back(lowered, uniformity, t);
    std::vector<SharedAccess> result;
    ir::for_each_statement(lowered.body, [&](const ir::Statement& s) {
        if (const ir::For* role = ir::role_of(s))
            for (std::size_t t = 0; t < lanes.size(); ++t)
                lanes[t].set_thread(lowered.roles[static_cast<std::size_t>(role->role)].first_thread() +
                                    static_cast<std::int64_t>(t));
        if (const auto* let = s.as<ir::Let>())
            for (Lane& lane : lanes) lane.bind(*let);
        const auto* load = s.as<ir::LoadVector>();
        const auto* store = s.as<ir::StoreVector>();
        const ir::Access* a = load ? &load->access : store ? &store->access : nullptr;
        if (!a || a->space != ir::Space::shared) return;
        const ir::SharedTile& tile = lowered.shared[static_cast<std::size_t>(a->memory)];
        const int bits = bits_of(tile.type);
        std::vector<std::optional<std::int64_t>> addresses;  // by lane; none where the mask is off
        try {
            for (const Lane& lane : lanes) {
                const bool on = !a->predicate || lane.value(a->predicate);
                const std::int64_t at = tile.byte_offset + lane.value(a->offset) * bits / 8;
                addresses.push_back(on ? std::optional(at) : std::nullopt);
            }
        } catch (DependsOnData) {
            return;
        }
        const auto active =
            std::count_if(addresses.begin(), addresses.end(), [](const auto& at) { return at.has_value(); });
        const int bytes = a->lanes * bits / 8;
        const auto [passes, best] = passes_of(addresses, bytes);
        result.push_back({s.place, tile.name, store != nullptr, bytes, static_cast<int>(active), passes, best});
    });
    return result;
}

}  // namespace tessera::lower
