#include "dsl/lower/name_shared.hpp"

#include <string>
#include <unordered_map>

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
        const std::vector<int> entry = versions_;
        const int first = next_;  // a write's version is its place, the same in both turns
        next_ += static_cast<int>(body.size());
        int place = first;
        for (const ir::Statement& s : body) {
            if (!s.as<ir::For>()) count(s);
            written(s, ++place);
        }
        versions_ = entry;
        place = first;
        ir::Body result;
        for (ir::Statement& s : body) {
            if (auto* loop = s.as<ir::For>())
                run(loop->body);
            else
                ir::map_refs(s, [&](Ref r) { return rewrite(r, s.place, result, true); });
            written(s, ++place);
            result.push_back(std::move(s));
        }
        body = std::move(result);
        std::swap(uses_, outer_uses);
        std::swap(names_, outer_names);
    }

private:
    int version(Ref n) {
        if (const auto* r = n->as<ir::Register>()) return version_of(r->array);
        int latest = 0;
        ir::for_each_operand(*n, [&](Ref operand) { latest = std::max(latest, version(operand)); });
        return latest;
    }
    int& version_of(int array) {
        if (static_cast<std::size_t>(array) >= versions_.size())
            versions_.resize(static_cast<std::size_t>(array) + 1, 0);
        return versions_[static_cast<std::size_t>(array)];
    }
    void written(const ir::Statement& s, int place) {
        if (const auto* set = s.as<ir::Set>()) version_of(set->array) = place;
        if (const auto* load = s.as<ir::LoadVector>()) version_of(load->array) = place;
        if (const auto* loop = s.as<ir::For>())
            for (const ir::Statement& inner : loop->body) written(inner, place);
    }

    void count(const ir::Statement& s) {
        ir::for_each_ref(s, [&](Ref r) { count(r); });
    }
    void count(Ref n) {
        if (++uses_[{n, version(n)}] > 1) return;
        ir::for_each_operand(*n, [&](Ref operand) { count(operand); });
    }

    /// Worth a name: data, masks, and index arithmetic that divides or is more than a term or two.
    static bool worth(Ref n) {
        if (n->as<ir::Binary>() || n->as<ir::Unary>() || n->as<ir::Select>() || n->as<ir::Shuffle>() ||
            n->as<ir::Cast>() || n->as<ir::Fma>()) {
            if (n->type != i32 && n->type != i64) return true;
            const auto* b = n->as<ir::Binary>();
            return b && (b->op == ir::BinaryOp::div || b->op == ir::BinaryOp::mod);
        }
        return false;
    }

    Ref rewrite(Ref n, const Place& place, ir::Body& into, bool root) {
        const Moment now{n, version(n)};
        if (const auto it = names_.find(now); it != names_.end()) return it->second;
        const bool named = !root && worth(n) && uses_[now] > 1;
        ir::Op op = ir::map_operands(*n, [&](Ref operand) { return rewrite(operand, place, into, false); });
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
    std::vector<int> versions_;
    int next_ = 0;
};

}  // namespace

void name_shared_expressions(ir::Program& program) { Pass(program).run(program.body); }

}  // namespace tessera::lower
