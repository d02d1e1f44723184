#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "dsl/host/check.hpp"
#include "dsl/host/code.hpp"
#include "dsl/host/launch.hpp"
#include "dsl/host/mbarriers.hpp"
#include "dsl/host/record.hpp"

namespace tessera::host {

/// Runs blocks, one after the other, in memory that it owns. Threads are data: each instruction runs for all threads of
/// a role before the next one. A role is a run of threads with a cursor of its own; the first is the whole block, until
/// it has done what comes ahead of the roles. Roles run in turn, each until it waits for another or is done.
class Machine {
public:
    Machine(const Launch& launch, const Code& code, Record& record);

    /// Errors: what the checks find.
    void run_block(std::int64_t block);

    /// The same in pieces, for blocks that wait for each other: begin, then go_on until it says that the block is done.
    /// Between, the block waits at a grid sync and keeps its state.
    void begin(std::int64_t block);
    bool go_on();

private:
    enum class Stop : std::uint8_t { none, barrier, grid_sync, waiting, finished };
    struct Cursor {
        std::uint32_t next;   // instruction
        std::uint32_t first;  // thread
        std::uint32_t threads;
        int role = -1;  // −1: the block
        Stop stop = Stop::none;
        bool warp = false;  // one by itself
    };
    struct alignas(64) Line {
        std::byte bytes[64];
    };

    void run(Cursor& cursor);
    void meet_at_barrier();
    std::size_t count(Stop stop) const;
    void report(const Instruction& instruction, const Cursor& cursor);
    void check_bounds(const Instruction& instruction, const Cursor& cursor);
    void access(const Instruction& instruction, const Cursor& cursor);
    void note(const Instruction& instruction, const Cursor& cursor);
    void mma(const Instruction& instruction, const Cursor& cursor);
    void product(const Instruction& instruction, const Cursor& cursor);
    void bulk(const Instruction& instruction, const Cursor& cursor);
    void box(const Instruction& instruction, const Cursor& cursor);
    void start_roles();
    [[noreturn]] void no_role_moves() const;
    void start_mbarriers(const Instruction& instruction);
    void arrive(const Instruction& instruction, const Cursor& cursor);
    bool phase_complete(const Instruction& instruction, const Cursor& cursor);
    std::size_t mbarrier_byte(const AccessInfo& info, std::int64_t stage) const;
    std::byte* base_of(const AccessInfo& info);
    void each_warp(const std::int64_t* condition, const Cursor& cursor);
    bool enter_loop(const Operand* operands);
    bool next_turn(const Operand* operands);

    std::byte* file() { return file_.front().bytes; }
    const void* at(Operand o, const Cursor& cursor) const {
        return file_.front().bytes + o.offset + std::size_t{cursor.first} * o.step;
    }
    void* at(Operand o, const Cursor& cursor) { return file() + o.offset + std::size_t{cursor.first} * o.step; }
    std::int64_t& counter(Operand o) { return *reinterpret_cast<std::int64_t*>(file() + o.offset); }

    const Launch& launch_;
    const Code& code_;
    Record& record_;
    std::vector<Line> file_;    // registers
    std::vector<Line> shared_;  // the block's shared memory
    std::vector<Cursor> roles_;
    std::vector<std::uint32_t> copied_;  // by thread: whether it takes part in a bulk copy
    Mbarriers mbarriers_;
    std::uint64_t meetings_ = 0;  // arrivals and waits that have ended
    std::int64_t block_ = 0;
    std::optional<AccessChecker> checker_;
};

}  // namespace tessera::host
