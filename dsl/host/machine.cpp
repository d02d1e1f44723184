#include "dsl/host/machine.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include "dsl/base/convert.hpp"
#include "dsl/base/error.hpp"
#include "dsl/host/mma.hpp"
#include "dsl/host/warpgroup_mma.hpp"
#include "dsl/ir/tensor_core.hpp"

namespace tessera::host {

Machine::Machine(const Launch& launch, const Code& code, Record& record)
    : launch_(launch),
      code_(code),
      record_(record),
      file_(code.file_bytes / sizeof(Line) + 1),
      shared_(static_cast<std::size_t>(launch.program.shared_bytes) / sizeof(Line) + 1) {
    const auto threads = static_cast<std::uint32_t>(launch.program.threads);
    const auto put = [&](Operand o, std::uint64_t bits) { std::memcpy(file() + o.offset, &bits, sizeof bits); };
    for (const Code::Initial& c : code.constants) put(c.at, c.bits);
    for (const Code::Scalar& s : code.scalars) put(s.at, launch.arguments.scalars[static_cast<std::size_t>(s.index)]);
    if (code.has_thread_index)
        for (std::uint32_t t = 0; t < threads; ++t) std::memcpy(file() + code.thread_index.offset + t * 4, &t, 4);
    if (code.checked) checker_.emplace(launch, code);
    Cursor before_blocks{0, 0, threads};
    run(before_blocks);
}

void Machine::run_block(std::int64_t block) {
    begin(block);
    require_internal(go_on(), "a block waits for the grid in a program that is not cooperative");
}

void Machine::begin(std::int64_t block) {
    if (code_.has_block_index) counter(code_.block_index) = block;
    block_ = block;
    mbarriers_.clear();
    if (checker_) checker_->begin_block(block);
    roles_.assign(1, {code_.block_entry, 0, static_cast<std::uint32_t>(launch_.program.threads)});
}

std::size_t Machine::count(Stop stop) const {
    return static_cast<std::size_t>(
        std::count_if(roles_.begin(), roles_.end(), [&](const Cursor& role) { return role.stop == stop; }));
}

bool Machine::go_on() {
    if (count(Stop::grid_sync) > 0) meet_at_barrier();
    for (;;) {
        const std::uint64_t met = meetings_;
        for (Cursor& role : roles_)
            if (role.stop == Stop::none || role.stop == Stop::waiting) run(role);
        if (count(Stop::finished) == roles_.size()) {
            if (roles_.front().role < 0 && !code_.role_entries.empty()) {
                start_roles();
                continue;
            }
            if (checker_) checker_->end_block();
            return true;
        }
        if (count(Stop::waiting) > 0) {
            if (meetings_ == met) no_role_moves();
            continue;
        }
        require_internal(count(Stop::finished) == 0, "a barrier waits for threads that have finished");
        if (count(Stop::grid_sync) == roles_.size()) return false;
        meet_at_barrier();
    }
}

void Machine::meet_at_barrier() {
    if (checker_) checker_->barrier(0, launch_.program.threads);
    for (Cursor& role : roles_) role.stop = Stop::none;
}

void Machine::run(Cursor& cursor) {
    std::array<const void*, 3> ins{};
    cursor.stop = Stop::none;
    for (;;) {
        const Instruction& i = code_.instructions[cursor.next++];
        const Operand* operands = code_.operands.data() + i.operands;
        switch (i.kind) {
            case Kind::lanes:
                for (std::size_t k = 0; k < i.ins; ++k) ins[k] = at(operands[k + 1], cursor);
                i.fn(at(operands[0], cursor), ins.data(), i.uniform ? 1 : cursor.threads);
                break;
            case Kind::load:
            case Kind::store: access(i, cursor); break;
            case Kind::bulk: bulk(i, cursor); break;
            case Kind::box: box(i, cursor); break;
            case Kind::commit:
            case Kind::wait:
            case Kind::fence:
            case Kind::product_wait:
                if (checker_) note(i, cursor);
                break;
            case Kind::start: start_mbarriers(i); break;
            case Kind::arrive:
            case Kind::release: arrive(i, cursor); break;
            case Kind::wait_phase:
                if (phase_complete(i, cursor)) break;
                --cursor.next;
                cursor.stop = Stop::waiting;
                return;
            case Kind::barrier:
                if (cursor.role < 0 && !cursor.warp) {
                    cursor.stop = Stop::barrier;
                    return;
                }
                if (checker_) checker_->barrier(static_cast<int>(cursor.first), static_cast<int>(cursor.threads));
                break;
            case Kind::grid_sync: cursor.stop = Stop::grid_sync; return;
            case Kind::loop_enter:
                if (!enter_loop(operands)) cursor.next = i.info;
                break;
            case Kind::loop_next:
                if (next_turn(operands)) cursor.next = i.info;
                break;
            case Kind::warp_enter:
                each_warp(static_cast<const std::int64_t*>(at(operands[0], cursor)), cursor);
                cursor.next = i.info;
                break;
            case Kind::warp_leave: return;
            case Kind::defined:
                if (*static_cast<const std::uint32_t*>(at(operands[0], cursor)) == 0)
                    checker_->undefined_word(code_.undefined_reads[i.info]);
                break;
            case Kind::report: report(i, cursor); break;
            case Kind::bounded: check_bounds(i, cursor); break;
            case Kind::mma: mma(i, cursor); break;
            case Kind::product: product(i, cursor); break;
            case Kind::finish: cursor.stop = Stop::finished; return;
        }
    }
}

/// What orders accesses and changes nothing else.
void Machine::note(const Instruction& i, const Cursor& cursor) {
    const int first = static_cast<int>(cursor.first), threads = static_cast<int>(cursor.threads);
    if (i.kind == Kind::commit) checker_->commit();
    if (i.kind == Kind::wait) checker_->wait(i.info);
    if (i.kind == Kind::fence) checker_->fence(first, threads);
    if (i.kind == Kind::product_wait) checker_->wait_products(first, threads);
}

void Machine::each_warp(const std::int64_t* condition, const Cursor& cursor) {
    constexpr std::uint32_t lanes = 32;
    for (std::uint32_t t = 0; t < cursor.threads; t += lanes) {
        if (condition[t] == 0) continue;
        Cursor warp{cursor.next, cursor.first + t, lanes};
        warp.warp = true;
        run(warp);
    }
}

bool Machine::enter_loop(const Operand* operands) {
    counter(operands[0]) = counter(operands[1]);
    return counter(operands[0]) < counter(operands[2]);
}

bool Machine::next_turn(const Operand* operands) {
    counter(operands[0]) += counter(operands[2]);
    return counter(operands[0]) < counter(operands[3]);
}

void Machine::report(const Instruction& i, const Cursor& cursor) {
    const Operand* operands = code_.operands.data() + i.operands;
    const auto* bad = static_cast<const std::uint32_t*>(at(operands[0], cursor));
    const auto* place = static_cast<const std::uint64_t*>(at(operands[1], cursor));
    const auto* value = static_cast<const std::uint64_t*>(at(operands[2], cursor));
    const std::uint64_t rule = static_cast<std::uint64_t>(code_.rules[i.info]) << ir::rule_shift;
    for (std::uint32_t t = 0; t < cursor.threads; ++t)
        if (bad[t] != 0) record_.meet({rule | place[t], value[t]});
}

void Machine::check_bounds(const Instruction& i, const Cursor& cursor) {
    const Operand* operands = code_.operands.data() + i.operands;
    const auto code = [&](int operand, std::uint32_t t) {
        const Operand o = operands[operand];
        return *reinterpret_cast<const std::uint32_t*>(static_cast<std::byte*>(at(o, cursor)) +
                                                       std::size_t{t} * o.step);
    };
    for (std::uint32_t t = 0; t < (i.uniform ? 1 : cursor.threads); ++t)
        if (code(0, t) != 0)
            checker_->out_of_bounds(code_.bounds[i.info], convert::real(code(1, t)), convert::real(code(2, t)),
                                    static_cast<int>(cursor.first + t));
}

void Machine::mma(const Instruction& i, const Cursor& cursor) {
    std::array<void*, 4> outs{};
    std::array<const void*, 4 + most_mma_elements> ins{};
    const Operand* operands = code_.operands.data() + i.operands;
    for (std::size_t k = 0; k < i.outs; ++k) outs[k] = at(operands[k], cursor);
    for (std::size_t k = 0; k < i.ins; ++k) ins[k] = at(operands[i.outs + k], cursor);
    multiply_and_add(code_.mmas[i.info], outs.data(), ins.data(), cursor.threads);
}

void Machine::product(const Instruction& i, const Cursor& cursor) {
    const ProductInfo& info = code_.products[i.info];
    std::array<void*, most_product_sums> outs{};
    std::array<const void*, most_product_sums + most_product_operands> ins{};
    const Operand* operands = code_.operands.data() + i.operands;
    for (std::size_t k = 0; k < i.outs; ++k) outs[k] = at(operands[k], cursor);
    for (std::size_t k = 0; k < i.ins; ++k) ins[k] = at(operands[i.outs + k], cursor);
    const auto matrix = [&](std::size_t which, const void* offsets, int rows, std::size_t first) {
        const AccessInfo& lies = code_.accesses[info.operand + which];
        const std::int64_t offset = static_cast<const std::int64_t*>(offsets)[first];
        if (checker_) checker_->start_product(lies, offset, rows, static_cast<int>(cursor.first + first));
        return SharedMatrix{base_of(lies), &launch_.program.shared[static_cast<std::size_t>(lies.memory)], offset};
    };
    for (std::size_t first = 0; first < cursor.threads; first += ir::warpgroup_threads) {
        const SharedMatrix b = matrix(0, ins[i.ins - 1u], info.columns, first);
        SharedMatrix a;
        if (!info.registers) a = matrix(1, ins[i.ins - 2u], ir::warpgroup_rows, first);
        multiply_and_add(info.type, info.columns, outs.data(), ins.data(), first, info.registers ? nullptr : &a, b);
    }
}

void Machine::access(const Instruction& i, const Cursor& cursor) {
    const AccessInfo& info = code_.accesses[i.info];
    const Operand* in = code_.operands.data() + i.operands + i.outs;
    VectorAccess a{};
    a.base = base_of(info);
    a.offset = static_cast<const std::int64_t*>(at(*in++, cursor));
    if (info.predicated) a.predicate = static_cast<const std::uint32_t*>(at(*in++, cursor));
    if (info.predicated && !info.store) a.fill = at(*in++, cursor);
    a.count = info.lanes;
    a.threads = cursor.threads;
    if (checker_) {
        std::array<const std::int64_t*, Shape::max_rank> coordinates{};
        for (std::size_t c = 0; c < static_cast<std::size_t>(info.coordinates); ++c)
            coordinates[c] = static_cast<const std::int64_t*>(at(*in++, cursor));
        checker_->check(info, a, coordinates.data(), static_cast<int>(cursor.first));
    }
    const Operand* moved = info.store ? in : code_.operands.data() + i.operands;
    std::array<void*, 32> lanes;
    for (std::size_t l = 0; l < static_cast<std::size_t>(info.lanes); ++l) lanes[l] = at(moved[l], cursor);
    a.lanes = lanes.data();
    info.move(a);
}

/// Bytes are moved at once; that they may be late is the checker's business.
void Machine::bulk(const Instruction& i, const Cursor& cursor) {
    const AccessInfo* const infos = &code_.accesses[i.info];  // from, to, mbarrier
    const Operand* in = code_.operands.data() + i.operands;
    std::array<VectorAccess, 2> sides{};
    std::array<std::array<const std::int64_t*, Shape::max_rank>, 2> coordinates{};
    copied_.assign(cursor.threads, 1);
    for (std::size_t side = 0; side < sides.size(); ++side) {
        const AccessInfo& info = infos[side];
        VectorAccess& a = sides[side];
        a.base = base_of(info);
        a.offset = static_cast<const std::int64_t*>(at(*in++, cursor));
        if (info.predicated) {
            const auto* predicate = static_cast<const std::uint32_t*>(at(*in++, cursor));
            for (std::size_t t = 0; t < copied_.size(); ++t) copied_[t] &= predicate[t];
        }
        for (std::size_t c = 0; c < static_cast<std::size_t>(info.coordinates); ++c)
            coordinates[side][c] = static_cast<const std::int64_t*>(at(*in++, cursor));
        a.predicate = copied_.data();
        a.count = info.lanes;
        a.threads = cursor.threads;
    }
    const auto* stage = static_cast<const std::int64_t*>(at(*in, cursor));
    for (std::size_t side = 0; checker_ && side < sides.size(); ++side)
        checker_->check_bulk(infos[side], sides[side], coordinates[side].data(), static_cast<int>(cursor.first),
                             infos[2], stage);
    const Element type = infos[0].type;
    const auto byte = [&](const VectorAccess& a, std::size_t t) { return a.base + a.offset[t] * bits_of(type) / 8; };
    for (std::size_t t = 0; t < copied_.size(); ++t)
        if (copied_[t] != 0)
            std::memcpy(byte(sides[1], t), byte(sides[0], t), static_cast<std::size_t>(bytes_of(type, infos[0].lanes)));
}

std::byte* Machine::base_of(const AccessInfo& info) {
    const auto memory = static_cast<std::size_t>(info.memory);
    return info.space == ir::Space::global ? static_cast<std::byte*>(launch_.arguments.tensors[memory])
                                           : shared_.front().bytes + launch_.program.shared[memory].byte_offset;
}

}  // namespace tessera::host
