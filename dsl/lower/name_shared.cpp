#include "dsl/lower/name_shared.hpp"

#include <algorithm>
#include <string>
#include <unordered_map>
#include <unordered_set>

#include "dsl/ir/walk.hpp"
#include "dsl/lower/expressions.hpp"

namespace tessera::lower {

namespace {

using ir::Ref;

/// An expression at a time: what it reads of registers must not have changed between two users.
struct Moment {
    Ref node;
    int version;
    friend bool operator==(const Moment&, const Moment&) = default;
};
struct MomentHash {
    std::size_t operator()(const Moment& m) const {
        return std::hash<const void*>()(m.node) ^ (static_cast<std::size_t>(m.version) * 0x9E3779B9u);
    }
};

class Pass {
public:
    explicit Pass(ir::Program& p) : program_(p), e_(*p.arena) {}

    void run(ir::Body& body) {
        std::unordered_map<Moment, int, MomentHash> outer_uses;
        std::unordered_map<Moment, Ref, MomentHash> outer_names;
        std::swap(uses_, outer_uses);
        std::swap(names_, outer_names);
        const Time entry = time_;
        for (const ir::Statement& s : body) {
            ir::for_each_ref(s, [&](Ref r) { count(r); });
            written(s);
        }
        go_back(entry);
        ir::Body result;
        for (ir::Statement& s : body) {
            const bool computes = s.as<ir::Let>() || s.as<ir::Set>();  // others may be switched off in some lanes
            ir::map_refs(s, [&](Ref r) { return rewrite(r, s.place, result, true, !computes); });
            if (auto* loop = s.as<ir::For>()) {
                const Time before = time_;
                run(loop->body);
                go_back(before);
            }
            written(s);
            result.push_back(std::move(s));
        }
        body = std::move(result);
        std::swap(uses_, outer_uses);
        std::swap(names_, outer_names);
    }

private:
    /// When each register array was last written, so that both walks over a body see the same versions.
    struct Time {
        std::vector<int> versions;  // by array
        int clock = 0;
    };
    void go_back(const Time& time) {
        time_ = time;
        known_versions_.clear();
    }
    int version(Ref n) {
        if (const auto* r = n->as<ir::Register>()) return version_of(r->array);
        if (const auto it = known_versions_.find(n); it != known_versions_.end()) return it->second;
        int latest = 0;
        ir::for_each_operand(*n, [&](Ref operand) { latest = std::max(latest, version(operand)); });
        known_versions_.emplace(n, latest);
        return latest;
    }
    int& version_of(int array) {
        const auto i = static_cast<std::size_t>(array);
        if (i >= time_.versions.size()) time_.versions.resize(i + 1, 0);
        return time_.versions[i];
    }
    void written(const ir::Statement& s) {
        const auto* set = s.as<ir::Set>();
        const auto* load = s.as<ir::LoadVector>();
        const auto* product = s.as<ir::MmaTile>();
        const auto* by_four = s.as<ir::WarpgroupMma>();
        if (set || load || product || by_four) {
            version_of(set       ? set->array
                       : load    ? load->array
                       : product ? product->array
                                 : by_four->array) = ++time_.clock;
            known_versions_.clear();
        }
        if (const auto* loop = s.as<ir::For>())
            for (const ir::Statement& inner : loop->body) written(inner);
    }

    static bool is_constant(const ir::Pack& pack) {
        return std::all_of(pack.elements.begin(), pack.elements.end(),
                           [](Ref element) { return element->as<ir::Constant>() != nullptr; });
    }

    void count(Ref n) {
        if (++uses_[{n, version(n)}] > 1) return;
        if (const auto* lookup = n->as<ir::Lookup>())
            for (Ref word : lookup->table)
                if (!is_constant(*word->as<ir::Pack>())) tables_.insert(word);
        ir::for_each_operand(*n, [&](Ref operand) { count(operand); });
    }

    /// Nodes that the expression takes when written out; all above `long_expression` are alike.
    int length(Ref n) {
        if (const auto it = lengths_.find(n); it != lengths_.end()) return it->second;
        int sum = 1;
        ir::for_each_operand(*n, [&](Ref operand) { sum = std::min(sum + length(operand), long_expression + 1); });
        lengths_.emplace(n, sum);
        return sum;
    }
    static constexpr int long_expression = 24;

    /// Worth a name: data, masks, and index arithmetic that divides or is long.
    bool worth(Ref n) {
        if (tables_.count(n)) return true;
        if (n->as<ir::Binary>() || n->as<ir::Unary>() || n->as<ir::Select>() || n->as<ir::Shuffle>() ||
            n->as<ir::Cast>() || n->as<ir::Fma>() || n->as<ir::WarpReduce>() || n->as<ir::Match>()) {
            if (n->type != i32 && n->type != i64) return true;
            const auto* b = n->as<ir::Binary>();
            return (b && (b->op == ir::BinaryOp::div || b->op == ir::BinaryOp::mod)) || length(n) > long_expression;
        }
        return false;
    }

    /// left_out: C++ leaves the expression out where another operand decides. What all lanes must come to gets a name.
    Ref rewrite(Ref n, const Place& place, ir::Body& into, bool root, bool left_out = false) {
        const Moment now{n, version(n)};
        if (const auto it = names_.find(now); it != names_.end()) return it->second;
        const bool named = (!root && worth(n) && uses_[now] > 1) || (left_out && ir::crosses_lanes(n));
        ir::Op op = ir::map_operands(*n, [&](Ref operand) {
            return rewrite(operand, place, into, false, (left_out && !named) || ir::may_be_left_out(n, operand));
        });
        const Ref rebuilt = e_.make(n->type, n->shape, std::move(op));
        if (!named) return rebuilt;
        const int local = static_cast<int>(program_.locals.size());
        program_.locals.push_back((n->type == boolean ? "p" : "t") + std::to_string(local));
        into.push_back({place, ir::Let{local, rebuilt}});
        return names_[now] = e_.make(n->type, n->shape, ir::Local{local});
    }

    ir::Program& program_;
    Expressions e_;
    std::unordered_map<Moment, int, MomentHash> uses_;
    std::unordered_map<Moment, Ref, MomentHash> names_;
    Time time_;
    std::unordered_map<Ref, int> known_versions_;  // now
    std::unordered_map<Ref, int> lengths_;
    std::unordered_set<Ref> tables_;  // words that lookups pick from
};

}  // namespace

void name_shared_expressions(ir::Program& program) { Pass(program).run(program.body); }

}  // namespace tessera::lower
