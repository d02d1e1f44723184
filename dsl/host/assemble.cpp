#include "dsl/host/assemble.hpp"

#include <fmt/format.h>
#include <optional>
#include <set>

#include "dsl/base/error.hpp"
#include "dsl/host/expressions.hpp"
#include "dsl/host/words.hpp"
#include "dsl/ir/uniform.hpp"
#include "dsl/ir/walk.hpp"

namespace tessera::host {

namespace {

class Assembler {
public:
    Assembler(const ir::Program& program, Code& code)
        : program_(program), code_(code), words_(program, numbering_), values_(program, numbering_, words_, code) {
        ir::for_each_statement(program.body, [&](const ir::Statement& s) {
            if (const auto* copy = s.as<ir::CopyVector>(); copy && copy->mbarriers >= 0)
                copied_.insert(copy->to.memory);
            if (const auto* box = s.as<ir::CopyBox>()) copied_.insert(box->tile);
        });
    }

    void body(const ir::Body& statements) {
        for (const ir::Statement& s : statements) {
            values_.new_statement();
            std::visit([&](const auto& op) { statement(s, op); }, s.op);
        }
    }

    const Numbering& numbering() const { return numbering_; }

private:
    void statement(const ir::Statement&, const ir::Comment&) {}
    void statement(const ir::Statement&, const ir::Declare& op) { words_.declare(op.array); }
    void statement(const ir::Statement&, const ir::Let& op) { values_.bind_local(op.local, values_(op.value)); }
    void statement(const ir::Statement&, const ir::Barrier&) {
        numbering_.emit({Kind::barrier, true, nullptr, 0, {}, {}});
    }

    void statement(const ir::Statement&, const ir::Set& op) {
        const auto pack = static_cast<std::size_t>(array(op.array).pack);
        const std::size_t first = values_.known_index(op.index) * pack;
        const Lanes value = values_(op.value);
        for (std::size_t i = 0; i < pack; ++i) words_.set(op.array, first + i, value[static_cast<int>(i)]);
    }

    void statement(const ir::Statement& s, const ir::For& op) {
        op.role >= 0   ? by_role(op)
        : op.each_warp ? each_warp(s, op)
        : op.unrolled  ? unrolled(op)
        : op.warp      ? by_warps(op)
                       : serial(s, op);
    }

    void by_role(const ir::For& op) {
        numbering_.open_role();
        body(op.body);
        numbering_.close_role();
    }

    void unrolled(const ir::For& op) {
        const auto known = [&](ir::Ref ref) { return static_cast<std::int32_t>(values_.known_index(ref)); };
        const std::int32_t begin = known(op.begin), end = known(op.end), step = known(op.step);
        require_internal(step > 0, "the step of a loop must be positive");
        for (std::int64_t i = begin; i < end; i += step) {
            values_.set_counter(op.loop, numbering_.constant(static_cast<std::uint32_t>(i), false));
            body(op.body);
        }
        values_.set_counter(op.loop, -1);
    }

    /// A serial loop of each warp, one warp after the other.
    void each_warp(const ir::Statement& s, const ir::For& op) {
        const int all = numbering_.per_thread(numbering_.constant(1, true));
        numbering_.open_loop();
        each_warp_ = true;
        serial(s, op);
        each_warp_ = false;
        numbering_.close_loop({Kind::warp_enter, true, nullptr, 0, {}, {all}},
                              {Kind::warp_leave, true, nullptr, 0, {}, {}}, {});
    }

    /// A bound as one value for the block, or for the warp that runs by itself: what was loaded lies in registers of
    /// every thread, all alike.
    int uniform_bound(const ir::Statement& s, ir::Ref ref) {
        const int value = values_.integer(ref);
        if (numbering_.at(value).uniform) return value;
        std::optional<ir::Uniformity>& uniformity = each_warp_ ? of_warps_ : of_block_;
        if (!uniformity) uniformity.emplace(program_, each_warp_ ? ir::Reach::warp : ir::Reach::block);
        if (!uniformity->uniform(ref))
            throw InternalError(fmt::format("the bounds of the loop at {}:{} differ among the threads of a {}",
                                            s.place.file, s.place.line, each_warp_ ? "warp" : "block"));
        const int first = numbering_.fresh(true, true);
        numbering_.copy(first, value);
        return first;
    }

    void serial(const ir::Statement& s, const ir::For& op) {
        const int begin = uniform_bound(s, op.begin), end = uniform_bound(s, op.end), step = uniform_bound(s, op.step);
        const std::vector<Words::Carried> carried = words_.enter_loop(op.body);
        numbering_.open_loop();
        const int counter = numbering_.fresh(true, true);
        values_.set_counter(op.loop, counter);
        body(op.body);
        words_.end_of_turn(carried);
        numbering_.close_loop({Kind::loop_enter, true, nullptr, 0, {counter}, {begin, end}},
                              {Kind::loop_next, true, nullptr, 0, {counter}, {counter, step, end}},
                              registers_of(carried));
        words_.leave_loop(op.body, carried);
        values_.set_counter(op.loop, -1);
    }

    void by_warps(const ir::For& op) {
        const int condition = numbering_.per_thread(values_.integer(op.end));
        const std::vector<Words::Carried> carried = words_.enter_loop(op.body);
        numbering_.open_loop();
        body(op.body);
        words_.end_of_turn(carried);
        numbering_.close_loop({Kind::warp_enter, true, nullptr, 0, {}, {condition}},
                              {Kind::warp_leave, true, nullptr, 0, {}, {}}, registers_of(carried));
        words_.leave_loop(op.body, carried);
    }

    void statement(const ir::Statement& s, const ir::LoadVector& op) {
        const ir::RegisterArray& into = array(op.array);
        const std::size_t first = values_.known_index(op.index) * static_cast<std::size_t>(into.pack);
        Draft draft{Kind::load, false, nullptr, 0, {}, {}};
        const bool predicated = add_address(op.access, draft);
        if (predicated) {
            require_internal(op.fill != nullptr, "a load under a predicate needs a fill value");
            draft.ins.push_back(numbering_.per_thread(values_.scalar(op.fill)));
        }
        add_coordinates(op.access, draft);
        for (int l = 0; l < op.access.lanes; ++l) {
            draft.outs.push_back(numbering_.fresh(is_wide(into.type), false));
            words_.set(op.array, first + static_cast<std::size_t>(l), draft.outs.back());
        }
        emit_access(s, op.access, predicated, draft);
    }

    void statement(const ir::Statement& s, const ir::StoreVector& op) {
        Draft draft{Kind::store, false, nullptr, 0, {}, {}};
        const bool predicated = add_address(op.access, draft);
        add_coordinates(op.access, draft);
        int lanes = 0;
        for (ir::Ref word : op.words) {
            const Lanes elements = values_(word);
            for (int i = 0; i < word->lanes(); ++i, ++lanes) draft.ins.push_back(numbering_.per_thread(elements[i]));
        }
        require_internal(lanes == op.access.lanes, "a store's words hold another number of elements than its access");
        emit_access(s, op.access, predicated, draft);
    }

    void statement(const ir::Statement& s, const ir::AtomicAdd& op) {
        Draft draft{Kind::store, false, nullptr, 0, {}, {}};
        const bool predicated = add_address(op.access, draft);
        add_coordinates(op.access, draft);
        draft.ins.push_back(numbering_.per_thread(values_.scalar(op.value)));
        emit_access(s, op.access, predicated, draft, true);
    }

    void statement(const ir::Statement& s, const ir::CopyVector& op) {
        if (op.mbarriers >= 0) return bulk(s, op);
        const Element type = program_.tensors.at(static_cast<std::size_t>(op.from.memory)).type;
        Draft load{Kind::load, false, nullptr, 0, {}, {}};
        const bool masked = add_address(op.from, load);
        if (masked) load.ins.push_back(numbering_.per_thread(numbering_.constant(0, is_wide(type))));
        add_coordinates(op.from, load);
        Draft store{Kind::store, false, nullptr, 0, {}, {}};
        const bool predicated = add_address(op.to, store);
        add_coordinates(op.to, store);
        for (int l = 0; l < op.from.lanes; ++l) {
            load.outs.push_back(numbering_.fresh(is_wide(type), false));
            store.ins.push_back(load.outs.back());
        }
        emit_access(s, op.from, masked, load);
        code_.accesses.back().copied = true;
        emit_access(s, op.to, predicated, store);
        code_.accesses.back().copy = true;
    }

    void statement(const ir::Statement& s, const ir::MmaTile& op) {
        Draft draft{Kind::mma, false, nullptr, static_cast<std::uint32_t>(code_.mmas.size()), {}, {}};
        std::vector<std::size_t> into;
        for (ir::Ref index : op.into) {
            into.push_back(values_.known_index(index));
            const Lanes now = values_.read_words(op.array, into.back(), s.place);
            draft.ins.push_back(numbering_.per_thread(now[0]));
            draft.outs.push_back(numbering_.fresh(false, false));
        }
        for (const std::vector<ir::Ref>* operand : {&op.a, &op.b})
            for (ir::Ref word : *operand) {
                const Lanes elements = values_(word);
                for (int i = 0; i < word->lanes(); ++i) draft.ins.push_back(numbering_.per_thread(elements[i]));
            }
        for (std::size_t i = 0; i < into.size(); ++i) words_.set(op.array, into[i], draft.outs[i]);
        code_.mmas.push_back(op.a[0]->type);
        numbering_.emit(std::move(draft));
    }

    void statement(const ir::Statement& s, const ir::WarpgroupMma& op) {
        const Element type = program_.shared.at(static_cast<std::size_t>(op.b_tile)).type;
        const ProductInfo info{type, op.columns, !op.a.empty(), static_cast<std::uint32_t>(code_.accesses.size())};
        Draft draft{Kind::product, false, nullptr, static_cast<std::uint32_t>(code_.products.size()), {}, {}};
        const std::size_t first = values_.known_index(op.into), below = static_cast<std::size_t>(op.rows_apart);
        std::vector<std::size_t> into;
        for (std::size_t word = 0; word < static_cast<std::size_t>(op.columns) / 2; ++word)
            into.push_back(first + word / 4 * 2 + word % 2 + (word % 4 < 2 ? 0 : below));
        for (const std::size_t word : into) {
            draft.ins.push_back(numbering_.per_thread(values_.read_words(op.array, word, s.place)[0]));
            draft.outs.push_back(numbering_.fresh(false, false));
        }
        for (ir::Ref word : op.a) {
            const Lanes elements = values_(word);
            for (int i = 0; i < word->lanes(); ++i) draft.ins.push_back(numbering_.per_thread(elements[i]));
        }
        if (op.a.empty()) draft.ins.push_back(numbering_.per_thread(values_.integer(op.a_offset)));
        draft.ins.push_back(numbering_.per_thread(values_.integer(op.b_offset)));
        for (int tile : {op.b_tile, op.a_tile})
            if (tile >= 0)
                code_.accesses.push_back(
                    {s.place, ir::Space::shared, tile, 0, 128 / bits_of(type), type, false, false, nullptr, 0});
        for (std::size_t i = 0; i < into.size(); ++i) words_.set(op.array, into[i], draft.outs[i]);
        code_.products.push_back(info);
        numbering_.emit(std::move(draft));
    }
    void statement(const ir::Statement&, const ir::MmaFence&) {}
    void statement(const ir::Statement&, const ir::MmaWait&) {
        numbering_.emit({Kind::product_wait, true, nullptr, 0, {}, {}});
    }

    /// Offset, predicate and coordinates of either side, then the mbarrier's.
    void bulk(const ir::Statement& s, const ir::CopyVector& op) {
        Draft draft{Kind::bulk, false, nullptr, static_cast<std::uint32_t>(code_.accesses.size()), {}, {}};
        for (const ir::Access* side : {&op.from, &op.to}) {
            const bool predicated = add_address(*side, draft);
            add_coordinates(*side, draft);
            AccessInfo info = info_of(s, *side, predicated);
            info.store = info.copy = side == &op.to;
            info.copied = !info.copy;
            info.bulk = true;
            code_.accesses.push_back(info);
        }
        add_mbarrier(s, op.mbarriers, op.stage, draft);
        numbering_.emit(std::move(draft));
    }

    void statement(const ir::Statement& s, const ir::CopyBox& op) {
        const ir::TensorMap& map = program_.maps.at(static_cast<std::size_t>(op.map));
        const ir::SharedTile& tile = program_.shared.at(static_cast<std::size_t>(op.tile));
        Draft draft{Kind::box, false, nullptr, static_cast<std::uint32_t>(code_.boxes.size()), {}, {}};
        draft.ins.push_back(numbering_.per_thread(values_.scalar(op.predicate)));
        const auto add = [&](ir::Ref number) { draft.ins.push_back(numbering_.per_thread(values_.integer(number))); };
        for (ir::Ref coordinate : op.from) add(coordinate);
        add(op.offset);
        for (ir::Ref coordinate : op.to)
            if (code_.checked) add(coordinate);
        code_.boxes.push_back({op.map, static_cast<std::uint32_t>(code_.accesses.size())});
        AccessInfo row{s.place,
                       ir::Space::shared,
                       op.tile,
                       tile.shape.rank() - 1,
                       static_cast<int>(map.box.back()),
                       tile.type,
                       true,
                       false,
                       nullptr,
                       code_.checked ? tile.shape.rank() : 0};
        row.copy = row.bulk = true;
        code_.accesses.push_back(row);
        add_mbarrier(s, op.mbarriers, op.stage, draft);
        numbering_.emit(std::move(draft));
    }

    void statement(const ir::Statement& s, const ir::WaitCopies& op) {
        if (op.mbarriers < 0)
            return numbering_.emit({Kind::wait, true, nullptr, static_cast<std::uint32_t>(op.pending), {}, {}});
        Draft draft{Kind::wait_phase, false, nullptr, static_cast<std::uint32_t>(code_.accesses.size()), {}, {}};
        add_mbarrier(s, op.mbarriers, op.stage, draft);
        draft.ins.push_back(numbering_.per_thread(values_.integer(op.parity)));
        numbering_.emit(std::move(draft));
    }
    void statement(const ir::Statement& s, const ir::CommitCopies& op) {
        if (op.mbarriers < 0) return numbering_.emit({Kind::commit, true, nullptr, 0, {}, {}});
        Draft draft{Kind::arrive, false, nullptr, static_cast<std::uint32_t>(code_.accesses.size()), {}, {}};
        add_mbarrier(s, op.mbarriers, op.stage, draft);
        numbering_.emit(std::move(draft));
    }
    void statement(const ir::Statement& s, const ir::Arrive& op) {
        Draft draft{Kind::release, false, nullptr, static_cast<std::uint32_t>(code_.accesses.size()), {}, {}};
        add_mbarrier(s, op.mbarriers, op.stage, draft);
        numbering_.emit(std::move(draft));
    }
    void statement(const ir::Statement&, const ir::KernelAheadWait&) {}  // one launch runs behind the other
    void statement(const ir::Statement&, const ir::ProxyFence&) {
        numbering_.emit({Kind::fence, true, nullptr, 0, {}, {}});
    }
    void statement(const ir::Statement& s, const ir::InitMbarriers& op) {
        Draft draft{Kind::start, false, nullptr, static_cast<std::uint32_t>(code_.accesses.size()), {}, {}};
        add_mbarrier(s, op.mbarriers, nullptr, draft);
        code_.accesses.back().store = true;
        code_.accesses.back().arrivals = op.arrivals;
        numbering_.emit(std::move(draft));
    }

    /// An mbarrier is looked at as an element of its tile: a stage that there is, and that somebody has started.
    void add_mbarrier(const ir::Statement& s, int tile, ir::Ref stage, Draft& draft) {
        draft.ins.push_back(numbering_.per_thread(stage ? values_.integer(stage) : numbering_.constant(0, true)));
        code_.accesses.push_back(
            {s.place, ir::Space::shared, tile, 0, 1, Element::u64, false, false, nullptr, code_.checked ? 1 : 0});
    }

    void statement(const ir::Statement&, const ir::GridSync&) {
        numbering_.emit({Kind::grid_sync, true, nullptr, 0, {}, {}});
    }

    void statement(const ir::Statement&, const ir::ReportElement& op) {
        Draft draft{Kind::report, false, nullptr, static_cast<std::uint32_t>(code_.rules.size()), {}, {}};
        for (const int in : {values_.scalar(op.bad), values_.scalar(op.place), values_.scalar(op.value)})
            draft.ins.push_back(numbering_.per_thread(in));
        code_.rules.push_back(op.rule);
        numbering_.emit(std::move(draft));
    }

    template <class Recorded>
    void statement(const ir::Statement& s, const Recorded&) {
        throw InternalError(fmt::format("the host executor was given a program that is not lowered ({}:{})",
                                        s.place.file, s.place.line));
    }

    const ir::RegisterArray& array(int index) const { return program_.arrays.at(static_cast<std::size_t>(index)); }

    bool add_address(const ir::Access& access, Draft& draft) {
        draft.ins.push_back(numbering_.per_thread(values_.integer(access.offset)));
        if (access.predicate == nullptr) return false;
        const int predicate = values_.scalar(access.predicate);
        if (numbering_.at(predicate).constant == 1u) return false;
        draft.ins.push_back(numbering_.per_thread(predicate));
        return true;
    }

    void add_coordinates(const ir::Access& access, Draft& draft) {
        if (!code_.checked) return;
        for (ir::Ref c : access.coordinates) draft.ins.push_back(numbering_.per_thread(values_.integer(c)));
    }

    void emit_access(const ir::Statement& s, const ir::Access& access, bool predicated, Draft& draft,
                     bool add = false) {
        AccessInfo info = info_of(s, access, predicated);
        info.store = draft.kind == Kind::store;
        info.add = add;
        info.fenced = info.store && access.space == ir::Space::shared && copied_.count(access.memory) > 0;
        info.move = add          ? add_function(info.type)
                    : info.store ? store_function(info.type, access.lanes)
                                 : load_function(info.type, access.lanes);
        if (info.move == nullptr)
            throw InternalError(fmt::format("the host executor cannot move {} elements of {} at once ({}:{})",
                                            access.lanes, name_of(info.type), s.place.file, s.place.line));
        draft.info = static_cast<std::uint32_t>(code_.accesses.size());
        code_.accesses.push_back(info);
        numbering_.emit(std::move(draft));
    }

    AccessInfo info_of(const ir::Statement& s, const ir::Access& access, bool predicated) const {
        const auto memory = static_cast<std::size_t>(access.memory);
        const bool global = access.space == ir::Space::global;
        const Element type = global ? program_.tensors.at(memory).type : program_.shared.at(memory).type;
        const int coordinates = code_.checked ? static_cast<int>(access.coordinates.size()) : 0;
        return {s.place, access.space, access.memory, access.axis, access.lanes,
                type,    false,        predicated,    nullptr,     coordinates};
    }

    const ir::Program& program_;
    std::optional<ir::Uniformity> of_block_, of_warps_;  // once asked for
    bool each_warp_ = false;                             // that is assembled
    std::set<int> copied_;                               // shared tiles that are copied to in bulk
    Code& code_;
    Numbering numbering_;
    Words words_;
    Expressions values_;
};

}  // namespace

Code assemble(const ir::Program& lowered, bool checked) {
    require_internal(lowered.stage == ir::Stage::lowered, "the host executor runs lowered programs only");
    for (const ir::SharedTile& tile : lowered.shared)
        require_internal(tile.byte_offset >= 0 &&
                             tile.byte_offset + tile.shape.count() * bits_of(tile.type) / 8 <= lowered.shared_bytes,
                         "a shared tile has no place in the block's shared memory");
    Code code;
    code.checked = checked;
    Assembler assembler(lowered, code);
    assembler.body(lowered.body);
    allocate(assembler.numbering(), lowered.threads, code);
    return code;
}

}  // namespace tessera::host
