#pragma once

#include <concepts>
#include <type_traits>

#include "dsl/ir/statement.hpp"

// The fields of each kind of statement, named once, as Node kinds name theirs: walking, rewriting, equality and effects
// derive from these. A For names its body too.

namespace tessera::ir {

template <class S, class Kind>
concept MaybeConst = std::same_as<std::remove_const_t<S>, Kind>;

void fields_of(MaybeConst<Access> auto& s, auto&& f) {
    f("space", s.space), f("memory", s.memory), f("coordinates", s.coordinates), f("axis", s.axis),
        f("offset", s.offset);
    f("predicate", s.predicate), f("lanes", s.lanes), f("cache", s.cache);
}
void fields_of(MaybeConst<For> auto& s, auto&& f) {
    f("loop", s.loop), f("name", s.name), f("begin", s.begin), f("end", s.end), f("step", s.step);
    f("unrolled", s.unrolled), f("body", s.body), f("when", s.when), f("warp", s.warp), f("role", s.role);
    f("each_warp", s.each_warp);
}
void fields_of(MaybeConst<Bind> auto& s, auto&& f) { f("value", s.value); }
void fields_of(MaybeConst<Store> auto& s, auto&& f) { f("view", s.view), f("value", s.value), f("cache", s.cache); }
void fields_of(MaybeConst<Accumulate> auto& s, auto&& f) { f("view", s.view), f("value", s.value); }
void fields_of(MaybeConst<Copy> auto& s, auto&& f) {
    f("from", s.from), f("to", s.to), f("per_thread", s.per_thread), f("mbarriers", s.mbarriers), f("stage", s.stage);
    f("tensor", s.tensor);
}
void fields_of(MaybeConst<CopyVector> auto& s, auto&& f) {
    f("from", s.from), f("to", s.to), f("mbarriers", s.mbarriers), f("stage", s.stage);
}
void fields_of(MaybeConst<CopyBox> auto& s, auto&& f) {
    f("map", s.map), f("tensor", s.tensor), f("from", s.from), f("tile", s.tile), f("to", s.to), f("offset", s.offset);
    f("predicate", s.predicate), f("mbarriers", s.mbarriers), f("stage", s.stage);
}
void fields_of(MaybeConst<WaitCopies> auto& s, auto&& f) {
    f("pending", s.pending), f("mbarriers", s.mbarriers), f("stage", s.stage), f("parity", s.parity);
    f("first_warp", s.first_warp);
}
void fields_of(MaybeConst<CommitCopies> auto& s, auto&& f) { f("mbarriers", s.mbarriers), f("stage", s.stage); }
void fields_of(MaybeConst<InitMbarriers> auto& s, auto&& f) { f("mbarriers", s.mbarriers), f("arrivals", s.arrivals); }
void fields_of(MaybeConst<Arrive> auto& s, auto&& f) { f("mbarriers", s.mbarriers), f("stage", s.stage); }
void fields_of(MaybeConst<GridSync> auto&, auto&&) {}
void fields_of(MaybeConst<KernelAheadWait> auto&, auto&&) {}
void fields_of(MaybeConst<Assign> auto& s, auto&& f) { f("variable", s.variable), f("value", s.value); }
void fields_of(MaybeConst<Report> auto& s, auto&& f) {
    f("rule", s.rule), f("view", s.view), f("bad", s.bad), f("value", s.value);
}
void fields_of(MaybeConst<Comment> auto& s, auto&& f) { f("text", s.text); }
void fields_of(MaybeConst<Declare> auto& s, auto&& f) { f("array", s.array); }
void fields_of(MaybeConst<Let> auto& s, auto&& f) { f("local", s.local), f("value", s.value); }
void fields_of(MaybeConst<Set> auto& s, auto&& f) { f("array", s.array), f("index", s.index), f("value", s.value); }
void fields_of(MaybeConst<LoadVector> auto& s, auto&& f) {
    f("access", s.access), f("array", s.array), f("index", s.index), f("fill", s.fill);
}
void fields_of(MaybeConst<StoreVector> auto& s, auto&& f) { f("access", s.access), f("words", s.words); }
void fields_of(MaybeConst<AtomicAdd> auto& s, auto&& f) { f("access", s.access), f("value", s.value); }
void fields_of(MaybeConst<ReportElement> auto& s, auto&& f) {
    f("rule", s.rule), f("place", s.place), f("bad", s.bad), f("value", s.value);
}
void fields_of(MaybeConst<MmaTile> auto& s, auto&& f) {
    f("array", s.array), f("into", s.into), f("a", s.a), f("b", s.b);
}
void fields_of(MaybeConst<Barrier> auto&, auto&&) {}
void fields_of(MaybeConst<WarpgroupMma> auto& s, auto&& f) {
    f("array", s.array), f("into", s.into), f("rows_apart", s.rows_apart), f("columns", s.columns), f("a", s.a);
    f("a_tile", s.a_tile), f("a_offset", s.a_offset), f("b_tile", s.b_tile), f("b_offset", s.b_offset);
}
void fields_of(MaybeConst<MmaFence> auto& s, auto&& f) { f("arrays", s.arrays); }
void fields_of(MaybeConst<MmaWait> auto& s, auto&& f) { f("arrays", s.arrays); }
void fields_of(MaybeConst<ProxyFence> auto&, auto&&) {}

}  // namespace tessera::ir
