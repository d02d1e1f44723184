#include "dsl/ir/uniform.hpp"

#include "dsl/ir/walk.hpp"

namespace tessera::ir {

// Everything is taken for uniform at first; what is not spreads until nothing changes, so that values carried round a
// loop are judged by all their writers.
Uniformity::Uniformity(const Program& lowered, Reach reach)
    : reach_(reach),
      loops_(static_cast<std::size_t>(lowered.loops), true),
      locals_(lowered.locals.size(), true),
      arrays_(lowered.arrays.size(), true),
      memo_(static_cast<std::size_t>(lowered.arena->size()), 0) {
    do {
        changed_ = false;
        memo_.assign(memo_.size(), 0);
        spread(lowered.body, true);
    } while (changed_);
    memo_.assign(memo_.size(), 0);
}

namespace {

/// The index of a thread over a multiple of a warp's lanes.
bool counts_warps(Ref value) {
    const auto* b = value->as<Binary>();
    const auto* by = b && b->op == BinaryOp::div ? b->b->as<Constant>() : nullptr;
    return by && b->a->as<ThreadIndex>() && by->bits > 0 && by->bits % 32 == 0;
}

}  // namespace

void Uniformity::lose(std::vector<bool>& table, int index) {
    const auto i = static_cast<std::size_t>(index);
    changed_ = changed_ || table[i];
    table[i] = false;
}

void Uniformity::spread(const Body& body, bool control) {
    for (const Statement& statement : body) {
        bool all = control;
        for_each_ref(statement, [&](Ref ref) { all = all && uniform(ref); });
        if (const auto* loop = statement.as<For>()) {
            if (!all) lose(loops_, loop->loop);
            spread(loop->body, all);
        }
        if (const auto* product = statement.as<MmaTile>()) lose(arrays_, product->array);
        if (const auto* product = statement.as<WarpgroupMma>()) lose(arrays_, product->array);
        if (all) continue;
        if (const auto* let = statement.as<Let>()) lose(locals_, let->local);
        if (const auto* set = statement.as<Set>()) lose(arrays_, set->array);
        if (const auto* load = statement.as<LoadVector>()) lose(arrays_, load->array);
    }
}

bool Uniformity::uniform(Ref value) const {
    signed char& known = memo_[static_cast<std::size_t>(value->id)];
    if (known != 0) return known > 0;
    bool all = !value->as<ThreadIndex>();
    if (const auto* loop = value->as<LoopIndex>()) all = loops_[static_cast<std::size_t>(loop->loop)];
    if (const auto* local = value->as<Local>()) all = locals_[static_cast<std::size_t>(local->local)];
    if (const auto* word = value->as<Register>()) all = arrays_[static_cast<std::size_t>(word->array)];
    for_each_operand(*value, [&](Ref operand) { all = all && uniform(operand); });
    if (reach_ == Reach::warp && (value->as<WarpReduce>() || counts_warps(value))) all = true;
    known = all ? 1 : -1;
    return all;
}

}  // namespace tessera::ir
