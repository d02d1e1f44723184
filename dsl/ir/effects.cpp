#include "dsl/ir/effects.hpp"

#include <algorithm>

#include "dsl/ir/walk.hpp"

namespace tessera::ir {

namespace {

template <class T>
void sort_unique(std::vector<T>& items) {
    std::sort(items.begin(), items.end());
    items.erase(std::unique(items.begin(), items.end()), items.end());
}

template <class T>
bool intersect(const std::vector<T>& a, const std::vector<T>& b) {
    return std::any_of(a.begin(), a.end(), [&](const T& x) { return std::binary_search(b.begin(), b.end(), x); });
}

template <class T>
void append(std::vector<T>& to, const std::vector<T>& from) {
    to.insert(to.end(), from.begin(), from.end());
}

void normalise(Effects& e) {
    sort_unique(e.memories);
    sort_unique(e.arrays);
    sort_unique(e.variables);
    sort_unique(e.locals);
}

/// What evaluating a node reads, without what it is made of.
void read_by_node(const Node& node, Effects& e) {
    if (const auto* local = node.as<Local>()) e.locals.push_back(local->local);
    if (const auto* word = node.as<Register>()) e.arrays.push_back(word->array);
}

void collect_reads(const Body& body, NodeSet& met, Effects& e);

void collect_reads(const Statement& statement, NodeSet& met, Effects& e) {
    if (const auto* bind = statement.as<Bind>()) {
        if (const auto* load = bind->value->as<Load>()) e.memories.push_back({load->view.space, load->view.memory});
        if (const auto* read = bind->value->as<VariableRead>()) e.variables.push_back(read->variable);
    }
    if (const auto* load = statement.as<LoadVector>()) e.memories.push_back({load->access.space, load->access.memory});
    if (const auto* sum = statement.as<Accumulate>()) e.memories.push_back({sum->view.space, sum->view.memory});
    if (const auto* copy = statement.as<Copy>()) e.memories.push_back({copy->from.space, copy->from.memory});
    if (const auto* copy = statement.as<CopyVector>()) e.memories.push_back({copy->from.space, copy->from.memory});
    if (const auto* box = statement.as<CopyBox>()) e.memories.push_back({Space::global, box->tensor});
    if (const auto* product = statement.as<MmaTile>()) e.arrays.push_back(product->array);
    if (const auto* product = statement.as<WarpgroupMma>()) {
        e.arrays.push_back(product->array);
        for (int tile : {product->a_tile, product->b_tile})
            if (tile >= 0) e.memories.push_back({Space::shared, tile});
    }
    if (const auto* sum = statement.as<AtomicAdd>()) e.memories.push_back({sum->access.space, sum->access.memory});
    if (const auto* wait = statement.as<WaitCopies>(); wait && wait->mbarriers >= 0)
        e.memories.push_back({Space::shared, wait->mbarriers});
    for_each_ref(statement, [&](Ref root) { for_each_node(root, met, [&](Ref node) { read_by_node(*node, e); }); });
    if (const auto* loop = statement.as<For>()) collect_reads(loop->body, met, e);
}

void collect_reads(const Body& body, NodeSet& met, Effects& e) {
    for (const Statement& statement : body) collect_reads(statement, met, e);
}

class WriteCollector {
public:
    explicit WriteCollector(Effects& effects) : e(effects) {}

    void operator()(const For& loop) const {
        for (const Statement& statement : loop.body) std::visit(*this, statement.op);
    }
    void operator()(const Store& store) const { e.memories.push_back({store.view.space, store.view.memory}); }
    void operator()(const StoreVector& store) const { e.memories.push_back({store.access.space, store.access.memory}); }
    void operator()(const Accumulate& sum) const { e.memories.push_back({sum.view.space, sum.view.memory}); }
    void operator()(const AtomicAdd& sum) const { e.memories.push_back({sum.access.space, sum.access.memory}); }
    void operator()(const Copy& copy) const {
        e.memories.push_back({copy.to.space, copy.to.memory});
        count(copy.mbarriers);
    }
    void operator()(const CopyVector& copy) const {
        e.memories.push_back({copy.to.space, copy.to.memory});
        count(copy.mbarriers);
    }
    void operator()(const CopyBox& copy) const {
        e.memories.push_back({Space::shared, copy.tile});
        count(copy.mbarriers);
    }
    void operator()(const WaitCopies&) const {}
    void operator()(const CommitCopies& s) const { count(s.mbarriers); }
    void operator()(const InitMbarriers& s) const { count(s.mbarriers); }
    void operator()(const Arrive& s) const { count(s.mbarriers); }
    void operator()(const GridSync&) const {}
    void operator()(const Assign& assign) const { e.variables.push_back(assign.variable); }
    void operator()(const Declare& declare) const { e.arrays.push_back(declare.array); }
    void operator()(const Set& set) const { e.arrays.push_back(set.array); }
    void operator()(const LoadVector& load) const { e.arrays.push_back(load.array); }
    void operator()(const Let& let) const { e.locals.push_back(let.local); }
    void operator()(const Bind&) const {}
    void operator()(const Report&) const {}  // the record is no memory of the program's
    void operator()(const ReportElement&) const {}
    void operator()(const Comment&) const {}
    void operator()(const Barrier&) const {}
    void operator()(const MmaTile& product) const { e.arrays.push_back(product.array); }
    void operator()(const WarpgroupMma& product) const { e.arrays.push_back(product.array); }
    void operator()(const MmaFence&) const {}
    void operator()(const MmaWait&) const {}
    void operator()(const ProxyFence&) const {}
    void operator()(const KernelAheadWait&) const {}

private:
    void count(int mbarriers) const {
        if (mbarriers >= 0) e.memories.push_back({Space::shared, mbarriers});
    }
    Effects& e;
};

}  // namespace

bool Effects::touches(MemoryId memory) const { return std::binary_search(memories.begin(), memories.end(), memory); }

bool Effects::touches_space(Space space) const {
    return std::any_of(memories.begin(), memories.end(), [&](const MemoryId& m) { return m.space == space; });
}

bool Effects::meets(const Effects& other) const {
    return intersect(memories, other.memories) || intersect(arrays, other.arrays) ||
           intersect(variables, other.variables) || intersect(locals, other.locals);
}

bool Effects::empty() const { return memories.empty() && arrays.empty() && variables.empty() && locals.empty(); }

void Effects::add(const Effects& other) {
    append(memories, other.memories);
    append(arrays, other.arrays);
    append(variables, other.variables);
    append(locals, other.locals);
    normalise(*this);
}

Effects reads_of(const Statement& statement) {
    Effects e;
    NodeSet met;
    collect_reads(statement, met, e);
    normalise(e);
    return e;
}

Effects writes_of(const Statement& statement) {
    Effects e;
    std::visit(WriteCollector(e), statement.op);
    normalise(e);
    return e;
}

}  // namespace tessera::ir
