#include "dsl/ir/verify.hpp"

#include <set>

#include "dsl/base/error.hpp"
#include "dsl/ir/each_warp.hpp"
#include "dsl/ir/kernel_ahead.hpp"
#include "dsl/ir/roles.hpp"
#include "dsl/ir/tensor_core.hpp"
#include "dsl/ir/verify_scopes.hpp"
#include "dsl/ir/walk.hpp"

namespace tessera::ir {

namespace {

using detail::Diagnosis;
using detail::Scopes;

/// Element type, rank and known alignment of a tensor or shared tile.
struct Memory {
    Element type;
    int rank;
    std::int64_t align;
    Role role;
};

class StatementVerifier {
public:
    StatementVerifier(const Program& program, Scopes& scopes) : program_(program), scopes_(scopes), at_{program} {}

    void body(const Body& statements) {
        for (const Statement& s : statements) {
            at_.statement = &s;
            votes(s);
            std::visit(*this, s.op);
        }
    }

    // ---- both stages

    void operator()(const For& s) {
        const Statement* here = at_.statement;
        for (Ref bound : {s.begin, s.end, s.step}) {
            scopes_.verify_expression(at_, bound);
            require(bound->type == (s.unrolled ? i32 : i64) && bound->scalar(), "loop", bound,
                    "bounds are i64 of rank 0 in a serial loop and i32 in an unrolled one");
            require(!s.unrolled || bound->as<Constant>(), "loop", bound,
                    "the bounds of an unrolled loop are constants");
        }
        if (s.when) {
            const auto *from = s.begin->as<Constant>(), *by = s.step->as<Constant>(), *to = s.end->as<Constant>();
            const auto* truth = s.end->as<Cast>();
            const bool counts = from && from->bits == 0 && by && by->bits == 1 && !s.unrolled;
            require(counts && (!to || to->bits <= 1), "condition", s.end, "a condition runs from 0 to 0 or 1 by 1");
            require(program_.stage == Stage::lowered || to || (truth && truth->value->type == boolean), "condition",
                    s.end, "a condition is one truth for all threads of the block: a boolean of rank 0");
        }
        require(!s.warp || s.when, "condition", s.end, "only a condition may differ between warps");
        const auto* to = s.end->as<Constant>();
        require(s.role < 0 || (s.when && !s.warp && to && to->bits == 1), "role-order", s.end,
                "the body of a role runs once");
        require(s.role < static_cast<int>(program_.roles.size()), "index-range", nullptr,
                "the program has no such role");
        const auto* step = s.step->as<Constant>();
        const auto* from = s.begin->as<Constant>();
        const int warps = program_.stage == Stage::lowered ? program_.threads / threads_of_warp : 1;
        require(!s.each_warp || (!s.unrolled && !s.when && s.role < 0), "each-warp", s.end,
                "warps share out the turns of a serial loop");
        require(!s.each_warp || (step && step->bits == static_cast<std::uint64_t>(warps)), "each-warp", s.step,
                "a warp goes on by the number of warps; as recorded, by 1");
        require(!s.each_warp || program_.stage == Stage::lowered || (from && from->bits == 0), "each-warp", s.begin,
                "turns that warps share out are recorded from 0");
        const std::uint64_t sign = std::uint64_t{1} << (bits_of(s.step->type) - 1);
        require(!step || (step->bits != 0 && (step->bits & sign) == 0), "loop", s.step, "a step is at least 1");
        scopes_.open_loop(at_, s);
        ++depth_;
        in_role_ += s.role >= 0;
        body(s.body);
        in_role_ -= s.role >= 0;
        --depth_;
        scopes_.close_loop(s);
        at_.statement = here;
    }

    // ---- recorded

    void operator()(const Bind& s) {
        in_stage(Stage::recorded);
        scopes_.verify_bound_value(at_, s.value);
        scopes_.bind(at_, s.value);
    }
    void operator()(const Store& s) {
        in_stage(Stage::recorded);
        const Shape tile = detail::verify_view(at_, s.view, nullptr);
        for (const ViewAxis& axis : s.view.axes) scopes_.verify_expression(at_, axis.offset);
        scopes_.verify_expression(at_, s.value);
        const Memory m = memory(s.view.space, s.view.memory);
        cache(s.cache, s.view.space);
        require(s.cache != Cache::kept, "cache", s.value, "what is stored is not kept");
        require(s.value->type == m.type, "operand-type", s.value, "what is stored has not the memory's type");
        require(s.value->shape == tile, "operand-shape", s.value, "what is stored has not the extents of the view");
        require(m.role != Role::input, "role", nullptr, "an input tensor is stored to");
    }
    void operator()(const Accumulate& s) {
        in_stage(Stage::recorded);
        const Shape tile = detail::verify_view(at_, s.view, nullptr);
        for (const ViewAxis& axis : s.view.axes) scopes_.verify_expression(at_, axis.offset);
        scopes_.verify_expression(at_, s.value);
        atomic(memory(s.view.space, s.view.memory), s.value);
        require(s.value->shape == tile, "operand-shape", s.value, "what is added has not the extents of the view");
    }
    void operator()(const Assign& s) {
        in_stage(Stage::recorded);
        scopes_.verify_expression(at_, s.value);
        require(s.variable >= 0 && static_cast<std::size_t>(s.variable) < program_.variables.size(), "index-range",
                nullptr, "the program has no such variable");
        const Variable& v = program_.variables[s.variable];
        require(s.value->type == v.type, "operand-type", s.value, "what is assigned has not the variable's type");
        require(s.value->shape == v.shape, "operand-shape", s.value, "what is assigned has not the variable's extents");
    }

    void operator()(const Report& s) {
        in_stage(Stage::recorded);
        const Shape tile = detail::verify_view(at_, s.view, nullptr);
        for (const ViewAxis& axis : s.view.axes) scopes_.verify_expression(at_, axis.offset);
        rule(s.rule, s.bad, s.value);
        require(s.view.space == Space::global && s.view.memory == program_.rules[s.rule].tensor, "report", nullptr,
                "what is reported lies in the tensor of its rule");
        require(s.bad->shape == tile, "operand-shape", s.bad, "the mask has not the extents of the view");
        require(s.value->shape == tile || s.value->scalar(), "operand-shape", s.value,
                "the value has not the extents of the view");
    }

    // ---- lowered

    void operator()(const Comment& s) {
        in_stage(Stage::lowered);
        require(s.text.find_first_of("\n\r\\") == std::string::npos, "comment", nullptr, "a comment stays on its line");
    }
    void operator()(const Declare& s) {
        in_stage(Stage::lowered);
        scopes_.declare(at_, s.array);
    }
    void operator()(const Let& s) {
        in_stage(Stage::lowered);
        scopes_.verify_expression(at_, s.value);
        scopes_.let(at_, s);
    }
    void operator()(const Set& s) {
        in_stage(Stage::lowered);
        words(s.array, s.index, 1);
        scopes_.verify_expression(at_, s.value);
        const RegisterArray& array = program_.arrays[s.array];
        require(s.value->type == array.type, "operand-type", s.value, "the word has not the type of its array");
        require(s.value->lanes() == array.pack, "operand-shape", s.value, "the word has not the lanes of its array");
    }
    void operator()(const LoadVector& s) {
        in_stage(Stage::lowered);
        access(s.access);
        const Memory m = memory(s.access.space, s.access.memory);
        scopes_.require_declared(at_, s.array, nullptr);
        const RegisterArray& array = program_.arrays[s.array];
        require(array.type == m.type, "operand-type", nullptr, "the array has not the memory's type");
        require(s.access.lanes % array.pack == 0, "lanes", nullptr,
                "the lanes of the access do not fill words of the array");
        words(s.array, s.index, s.access.lanes / array.pack);
        require((s.fill != nullptr) == (s.access.predicate != nullptr), "fill", s.fill,
                "there is a fill exactly if there is a predicate");
        if (s.fill == nullptr) return;
        scopes_.verify_expression(at_, s.fill);
        require(s.fill->type == m.type && s.fill->scalar(), "fill", s.fill,
                "the fill is a rank-0 value of the memory's type");
    }
    void operator()(const StoreVector& s) {
        require(s.access.cache != Cache::kept, "cache", nullptr, "what is stored is not kept");
        in_stage(Stage::lowered);
        access(s.access);
        const Memory m = memory(s.access.space, s.access.memory);
        int lanes = 0;
        for (Ref word : s.words) {
            scopes_.verify_expression(at_, word);
            require(word->type == m.type, "operand-type", word, "what is stored has not the memory's type");
            lanes += word->lanes();
        }
        require(lanes == s.access.lanes, "lanes", nullptr, "the words have not the lanes of the access");
        require(m.role != Role::input, "role", nullptr, "an input tensor is stored to");
    }
    void operator()(const AtomicAdd& s) {
        in_stage(Stage::lowered);
        access(s.access);
        scopes_.verify_expression(at_, s.value);
        atomic(memory(s.access.space, s.access.memory), s.value);
        require(s.value->scalar() && s.access.lanes == 1, "lanes", s.value, "an atomic add moves one element");
    }
    void operator()(const Copy& s) {
        in_stage(Stage::recorded);
        const Shape tile = detail::verify_view(at_, s.to, nullptr);
        require(detail::verify_view(at_, s.from, nullptr) == tile, "operand-shape", nullptr,
                "the two sides of a copy have not the same extents");
        require(s.per_thread.empty() || s.per_thread.rank() == tile.rank(), "per-thread", nullptr,
                "there is a number for each axis");
        for (int i = 0; i < s.per_thread.rank(); ++i)
            require(s.per_thread[i] >= 1 && tile[i] % s.per_thread[i] == 0, "per-thread", nullptr,
                    "what a thread copies at once divides the tile");
        for (const View* view : {&s.from, &s.to})
            for (const ViewAxis& axis : view->axes) scopes_.verify_expression(at_, axis.offset);
        copied(s.from.space, memory(s.from.space, s.from.memory), s.to.space, memory(s.to.space, s.to.memory));
        mbarrier(s.mbarriers, s.stage);
        require(!s.tensor || s.mbarriers >= 0, "mbarrier", nullptr, "mbarriers count what tensor maps copy");
        require(!s.tensor || s.per_thread.empty(), "per-thread", nullptr, "one thread copies a box");
    }
    void operator()(const CopyBox& s) {
        in_stage(Stage::lowered);
        require(s.map >= 0 && static_cast<std::size_t>(s.map) < program_.maps.size(), "index-range", nullptr,
                "the program has no such tensor map");
        const TensorMap& map = program_.maps[s.map];
        const Memory tensor = memory(Space::global, s.tensor), tile = memory(Space::shared, s.tile);
        require(started_.count(s.tile) == 0, "mbarrier", nullptr, "mbarriers are neither loaded nor stored");
        require(map.tensor == s.tensor, "copy", nullptr, "the tensor of a box is its map's");
        copied(Space::global, tensor, Space::shared, tile);
        require(s.mbarriers >= 0, "mbarrier", nullptr, "mbarriers count what tensor maps copy");
        mbarrier(s.mbarriers, s.stage);
        numbers(s.from, tensor.rank), numbers(s.to, tile.rank), numbers({s.offset}, 1);
        scopes_.verify_expression(at_, s.predicate);
        require(s.predicate->type == boolean && s.predicate->scalar(), "predicate", s.predicate,
                "a predicate is boolean and of rank 0");
        const SharedTile& into = program_.shared[s.tile];
        const Swizzle plain, wanted = map.swizzle > 0 ? engine_swizzle(map.swizzle, bits_of(tile.type)) : plain;
        require(into.swizzle.bits == wanted.bits &&
                    (wanted.bits == 0 || (into.swizzle.base == wanted.base && into.swizzle.shift == wanted.shift)),
                "swizzle", nullptr, "the tile has not the swizzle of the map");
        require(into.byte_offset % map.alignment() == 0, "align", nullptr,
                "the tile's place does not suit what the copy engine writes");
        require(map.box.count() <= into.shape.count(), "lanes", nullptr, "the box is larger than the tile");
    }
    void operator()(const CopyVector& s) {
        in_stage(Stage::lowered);
        const bool bulk = s.mbarriers >= 0;
        access(s.from, bulk), access(s.to, bulk);
        copied(s.from.space, memory(s.from.space, s.from.memory), s.to.space, memory(s.to.space, s.to.memory));
        mbarrier(s.mbarriers, s.stage);
        const int bytes = s.from.lanes * bits_of(memory(s.from.space, s.from.memory).type) / 8;
        require(s.from.lanes == s.to.lanes, "lanes", nullptr, "the two sides of a copy have not the same lanes");
        require(!bulk || (bytes > 0 && bytes % 16 == 0), "lanes", nullptr, "a bulk copy moves a multiple of 16 bytes");
        require(bulk || bytes == 4 || bytes == 8 || bytes == 16, "lanes", nullptr, "a copy moves 4, 8 or 16 bytes");
    }
    void operator()(const WaitCopies& s) {
        mbarrier(s.mbarriers, s.stage);
        require(s.pending >= 0 && (s.pending == 0 || s.mbarriers < 0), "wait", nullptr,
                "groups that may stay pending are a thread's own: at least 0, and 0 where mbarriers count");
        require((s.parity != nullptr) == (s.mbarriers >= 0), "wait", s.parity, "a phase is one of an mbarrier");
        if (s.parity) stage_number(s.parity);
        require(!s.first_warp || (s.mbarriers >= 0 && in_role_ > 0), "wait", nullptr,
                "the first warp of a role waits alone for an mbarrier, and only there");
    }
    void operator()(const CommitCopies& s) { mbarrier(s.mbarriers, s.stage); }
    void operator()(const Arrive& s) {
        mbarrier(s.mbarriers, s.stage);
        require(in_role_ > 0, "arrive", nullptr, "the warps of a role arrive; outside of roles there is none");
    }
    void operator()(const InitMbarriers& s) {
        require(s.arrivals >= 1, "mbarrier", nullptr, "a phase has at least one arrival");
        require(scopes_.at_top(), "mbarrier", nullptr, "mbarriers are started once, outside of loops");
        const std::size_t count = program_.shared.size();
        require(s.mbarriers >= 0 && static_cast<std::size_t>(s.mbarriers) < count, "index-range", nullptr,
                "the program has no such memory");
        const SharedTile& tile = program_.shared[s.mbarriers];
        require(tile.type == u64 && tile.shape.rank() == 1, "mbarrier", nullptr,
                "mbarriers lie in a shared tile of u64 and rank 1");
        require(started_.insert(s.mbarriers).second, "mbarrier", nullptr, "mbarriers are started twice");
    }
    void operator()(const GridSync&) {
        require(depth_ == 0, "grid-sync", nullptr, "blocks meet at the top level of the program only");
        require(program_.cooperative, "grid-sync", nullptr, "blocks that meet all run at once: a cooperative program");
    }
    void operator()(const ReportElement& s) {
        in_stage(Stage::lowered);
        rule(s.rule, s.bad, s.value);
        scopes_.verify_expression(at_, s.place);
        require(s.place->type == u64 && s.place->scalar(), "report", s.place, "a place is u64 of rank 0");
        require(s.bad->scalar() && s.value->scalar(), "operand-shape", s.bad, "one element is reported at a time");
    }
    void operator()(const Barrier&) { in_stage(Stage::lowered); }
    void operator()(const MmaTile& s) {
        in_stage(Stage::lowered);
        require(s.into.size() == 4 && s.a.size() == 4 && s.b.size() == 2, "mma", nullptr,
                "a product has four words of the result and of a, and two of b");
        for (Ref index : s.into) words(s.array, index, 1);
        const RegisterArray& array = program_.arrays[s.array];
        require(array.type == f32 && array.pack == 1, "operand-type", nullptr, "a product is added to f32");
        const Element type = s.a[0]->type;
        require(tensor_core_instruction(type) != nullptr, "operand-type", s.a[0],
                "tensor cores have no instruction for this type");
        for (const std::vector<Ref>* operand : {&s.a, &s.b})
            for (Ref word : *operand) {
                scopes_.verify_expression(at_, word);
                require(word->type == type && word->lanes() * bits_of(type) == 32, "operand-type", word,
                        "the operands of a product are words of one type, of 32 bits");
            }
    }
    void operator()(const WarpgroupMma& s) {
        in_stage(Stage::lowered);
        detail::verify_product(at_, s);
        words(s.array, s.into, s.rows_apart + s.columns / 4);
        for_each_ref(*at_.statement, [&](Ref ref) { scopes_.verify_expression(at_, ref); });
    }
    void operator()(const MmaFence& s) { declared(s.arrays); }
    void operator()(const MmaWait& s) { declared(s.arrays); }
    void operator()(const ProxyFence&) { in_stage(Stage::lowered); }
    void operator()(const KernelAheadWait&) {}  // verify_kernel_ahead

private:
    void declared(const std::vector<int>& arrays) {
        in_stage(Stage::lowered);
        for (int array : arrays) scopes_.require_declared(at_, array, nullptr);
    }
    void require(bool holds, const char* rule, Ref node, const char* why) const { at_.require(holds, rule, node, why); }
    void in_stage(Stage stage) const {
        require(program_.stage == stage, "stage", nullptr,
                "this kind of statement does not belong to the program's stage");
    }

    /// A vote of a warp is the condition of a `when` by warps, and nothing else.
    void votes(const Statement& s) const {
        if (program_.stage == Stage::lowered || s.as<Bind>()) return;
        const auto* loop = s.as<For>();
        for_each_ref(s, [&](Ref ref) {
            const bool condition = loop && loop->warp && ref == loop->end;
            require(is_vote(ref) == condition, "vote", ref,
                    condition ? "a condition by warps is a warp's vote" : "a warp's vote is used as another value");
        });
    }

    Memory memory(Space space, int index) const {
        const std::size_t count = space == Space::global ? program_.tensors.size() : program_.shared.size();
        require(index >= 0 && static_cast<std::size_t>(index) < count, "index-range", nullptr,
                "the program has no such memory");
        if (space == Space::global) {
            const TensorParam& t = program_.tensors[index];
            return {t.type, static_cast<int>(t.axes.size()), t.align, t.role};
        }
        const SharedTile& t = program_.shared[index];
        return {t.type, t.shape.rank(), t.byte_offset & -t.byte_offset, Role::inout};
    }

    void atomic(const Memory& m, Ref value) const {
        require(m.role == Role::inout, "role", nullptr,
                "what is added to is read and written: an inout tensor or a shared tile");
        require(value->type == m.type, "operand-type", value, "what is added has not the memory's type");
        require(is_integer(m.type) && bits_of(m.type) >= 32, "atomic", value,
                "an atomic add is for whole numbers of 32 or 64 bits");
    }

    void copied(Space from, const Memory& tensor, Space to, const Memory& tile) const {
        require(from == Space::global && to == Space::shared, "copy", nullptr,
                "a copy goes from a tensor to shared memory");
        require(tensor.role != Role::output, "role", nullptr, "an output tensor is copied from");
        require(tensor.type == tile.type, "operand-type", nullptr, "the two sides of a copy have not the same type");
    }

    void mbarrier(int tile, Ref stage) {
        require((stage != nullptr) == (tile >= 0), "mbarrier", stage, "a stage is one of mbarriers");
        if (tile < 0) return;
        require(started_.count(tile) > 0, "mbarrier", nullptr, "mbarriers are used before they are started");
        stage_number(stage);
    }
    void stage_number(Ref number) {
        scopes_.verify_expression(at_, number);
        require(number->scalar() && number->type == (program_.stage == Stage::recorded ? i64 : i32), "operand-type",
                number, "a stage or parity is of rank 0 and i64, lowered i32");
    }

    void numbers(const std::vector<Ref>& list, int count) {
        require(list.size() == static_cast<std::size_t>(count), "coordinates", nullptr,
                "there is a coordinate for each axis of the memory");
        for (Ref number : list) {
            scopes_.verify_expression(at_, number);
            require(number->scalar() && number->type == i32, "coordinates", number, "coordinates are i32 of rank 0");
        }
    }

    void rule(int index, Ref bad, Ref value) {
        require(index >= 0 && static_cast<std::size_t>(index) < program_.rules.size(), "index-range", nullptr,
                "the program has no such rule");
        scopes_.verify_expression(at_, bad);
        scopes_.verify_expression(at_, value);
        require(bad->type == boolean, "operand-type", bad, "what breaks a rule is marked by a boolean");
        require(value->type == i64, "operand-type", value, "the value of a report is i64");
    }

    void words(int array, Ref index, int count) {
        scopes_.require_declared(at_, array, nullptr);
        scopes_.verify_expression(at_, index);
        scopes_.verify_register_index(at_, array, index, count);
    }

    void cache(Cache hint, Space space) const {
        require(hint == Cache::normal || space == Space::global, "cache", nullptr, "shared memory is no cache");
    }

    void access(const Access& a, bool bulk = false) {
        require(a.space == Space::global || started_.count(a.memory) == 0, "mbarrier", nullptr,
                "mbarriers are neither loaded nor stored");
        const Memory m = memory(a.space, a.memory);
        cache(a.cache, a.space);
        require(static_cast<int>(a.coordinates.size()) == m.rank, "coordinates", nullptr,
                "an access has a coordinate for each axis of its memory");
        for (Ref c : a.coordinates) {
            scopes_.verify_expression(at_, c);
            require((c->type == i64 || c->type == i32) && c->scalar(), "coordinates", c,
                    "coordinates are i64 or i32 of rank 0");
        }
        require(a.axis >= 0 && (a.axis < m.rank || (m.rank == 0 && a.lanes == 1)), "axis", nullptr,
                "the memory has no such axis");
        scopes_.verify_expression(at_, a.offset);
        require(a.offset->type == (a.space == Space::global ? i64 : i32) && a.offset->scalar(), "offset-type", a.offset,
                "an offset is i64 in global memory and i32 in shared memory, of rank 0");
        if (a.predicate != nullptr) {
            scopes_.verify_expression(at_, a.predicate);
            require(a.predicate->type == boolean && a.predicate->scalar(), "predicate", a.predicate,
                    "a predicate is boolean and of rank 0");
        }
        if (!bulk) width(a, m);
    }

    void width(const Access& a, const Memory& m) const {
        require(a.lanes >= 1 && (a.lanes & (a.lanes - 1)) == 0, "lanes", nullptr,
                "the lanes of an access are a power of two");
        require(a.lanes % packed_elements_of(m.type) == 0, "lanes", nullptr,
                "an access moves whole groups of the elements that share bytes");
        const bool thirds = m.type == e5m6;  // groups of 12 bytes are moved as three equal accesses
        const std::int64_t bits = std::int64_t{a.lanes} * bits_of(m.type) / (thirds ? 3 : 1);
        const std::int64_t most = a.space == Space::global && !thirds ? 256 : 128;
        require(bits >= 8 && (bits & (bits - 1)) == 0 && bits <= most, "lanes", nullptr,
                "an access moves 1, 2, 4, 8, 16 or, in global memory, 32 bytes; of e5m6 three times 4, 8 or 16");
        const bool anywhere = a.space == Space::shared && m.align == 0;  // at byte 0
        require(anywhere || m.align * 8 >= bits, "align", nullptr,
                "the memory's base is not known to be a multiple of the access");
    }

    const Program& program_;
    Scopes& scopes_;
    Diagnosis at_;
    std::set<int> started_;  // tiles of mbarriers
    int depth_ = 0;          // loops around the statement
    int in_role_ = 0;        // roles around it
};

}  // namespace

void verify(const Program& program) {
    require_internal(program.arena != nullptr, "rule \"arena\": a program owns an arena");
    Scopes scopes(program);
    detail::verify_tables(program, scopes);
    StatementVerifier(program, scopes).body(program.body);
    for (const auto& fault : {find_role_fault(program), find_each_warp_fault(program)}) {
        const Statement* const first = program.body.empty() ? nullptr : &program.body.back();
        if (fault) detail::Diagnosis{program, first}.fail(fault->rule, nullptr, fault->text.c_str());
    }
    verify_kernel_ahead(program);
    if (program.stage != Stage::lowered) return;
    detail::verify_control(program);
    detail::verify_products(program);
}

}  // namespace tessera::ir
