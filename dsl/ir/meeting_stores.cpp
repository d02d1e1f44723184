#include "dsl/ir/meeting_stores.hpp"

#include <algorithm>
#include <map>
#include <optional>

namespace tessera::ir {

namespace {

/// A whole number as a sum of multiples of what is not known, each of which has one value for the roles of a block.
struct Sum {
    std::int64_t constant = 0;
    std::map<std::pair<std::size_t, std::int64_t>, std::int64_t> terms;  // by kind of node and its index or id

    void add(const Sum& other, std::int64_t times) {
        constant += other.constant * times;
        for (const auto& [what, factor] : other.terms)
            if ((terms[what] += factor * times) == 0) terms.erase(what);
    }
};

/// Counters stand at the first turn.
Sum sum_of(Ref node) {
    Sum sum;
    if (const auto* c = node->as<Constant>()) {
        sum.constant = static_cast<std::int64_t>(c->bits);
    } else if (const auto* p = node->as<Parameter>()) {
        sum.terms[{node->op.index(), p->index}] = 1;
    } else if (const auto* block = node->as<BlockIndex>()) {
        sum.terms[{node->op.index(), block->axis}] = 1;
    } else if (const auto* b = node->as<Binary>(); b && (b->op == BinaryOp::add || b->op == BinaryOp::sub)) {
        sum = sum_of(b->a);
        sum.add(sum_of(b->b), b->op == BinaryOp::add ? 1 : -1);
    } else if (b && b->op == BinaryOp::mul) {
        Sum x = sum_of(b->a), y = sum_of(b->b);
        if (!x.terms.empty()) std::swap(x, y);
        if (x.terms.empty())
            sum.add(y, x.constant);
        else
            sum.terms[{node->op.index(), node->id}] = 1;
    } else if (!node->as<LoopIndex>()) {
        sum.terms[{node->op.index(), node->id}] = 1;
    }
    return sum;
}

/// a − b, if it is known.
std::optional<std::int64_t> difference(const Sum& a, const Sum& b) {
    Sum d = a;
    d.add(b, -1);
    if (!d.terms.empty()) return std::nullopt;
    return d.constant;
}

bool meet_along(const ViewAxis& a, const ViewAxis& b, Ref extent) {
    if (!a.offset->scalar() || !b.offset->scalar()) return false;
    const Sum first = sum_of(a.offset), second = sum_of(b.offset);
    const auto apart = difference(second, first);
    if (!apart || *apart >= a.extent || -*apart >= b.extent) return false;
    const auto begin = difference(*apart > 0 ? second : first, sum_of(extent));
    return !begin || *begin < 0;  // what lies past the end is not written
}

void collect(const Body& body, std::vector<const Statement*>& found) {
    for (const Statement& s : body) {
        if (const auto* store = s.as<Store>(); store && store->view.space == Space::global) found.push_back(&s);
        const auto* loop = s.as<For>();
        const auto* turns = loop ? loop->end->as<Constant>() : nullptr;
        if (loop && !loop->when && !(turns && static_cast<std::int64_t>(turns->bits) <= 0)) collect(loop->body, found);
    }
}

}  // namespace

std::vector<const Statement*> sure_stores(const Body& role) {
    std::vector<const Statement*> found;
    collect(role, found);
    return found;
}

bool surely_meet(const Program& program, const Store& a, const Store& b) {
    if (a.view.memory != b.view.memory) return false;
    const auto& axes = program.tensors[static_cast<std::size_t>(a.view.memory)].axes;
    for (std::size_t i = 0; i < axes.size(); ++i)
        if (!meet_along(a.view.axes[i], b.view.axes[i], axes[i].extent)) return false;
    return true;
}

}  // namespace tessera::ir
