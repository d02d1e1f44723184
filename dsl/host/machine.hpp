#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "dsl/host/check.hpp"
#include "dsl/host/code.hpp"
#include "dsl/host/launch.hpp"
#include "dsl/host/record.hpp"

namespace tessera::host {

/// Runs blocks, one after the other, in memory that it owns. Threads are data: each instruction runs for all threads of
/// a role before the next one. A role is a run of threads with a cursor of its own that stops at barriers and goes on
/// when all that the barrier waits for have come; today there is one role, the whole block.
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
    enum class Stop : std::uint8_t { none, barrier, grid_sync, finished };
    struct Cursor {
        std::uint32_t next;   // instruction
        std::uint32_t first;  // thread
        std::uint32_t threads;
        Stop stop = Stop::none;
    };
    struct alignas(64) Line {
        std::byte bytes[64];
    };

    void run(Cursor& cursor);
    void meet_at_barrier();
    std::size_t count(Stop stop) const;
    void report(const Instruction& instruction, const Cursor& cursor);
    void check_division(const Instruction& instruction, const Cursor& cursor);
    void access(const Instruction& instruction, const Cursor& cursor);
    void mma(const Instruction& instruction, const Cursor& cursor);
    void product(const Instruction& instruction, const Cursor& cursor);
    void bulk(const Instruction& instruction, const Cursor& cursor);
    void box(const Instruction& instruction, const Cursor& cursor);
    void meet_mbarrier(const Instruction& instruction, const Cursor& cursor);
    std::byte* base_of(const AccessInfo& info);
    void each_warp(const std::int64_t* condition, const Cursor& cursor);
    bool enter_loop(const Operand* operands);
    bool next_turn(const Operand* operands);

    std::byte* file() { return file_.front().bytes; }
    void* at(Operand o, const Cursor& cursor) { return file() + o.offset + std::size_t{cursor.first} * o.step; }
    std::int64_t& counter(Operand o) { return *reinterpret_cast<std::int64_t*>(file() + o.offset); }

    const Launch& launch_;
    const Code& code_;
    Record& record_;
    std::vector<Line> file_;    // registers
    std::vector<Line> shared_;  // the block's shared memory
    std::vector<Cursor> roles_;
    std::vector<std::uint32_t> copied_;  // by thread: whether it takes part in a bulk copy
    std::optional<AccessChecker> checker_;
};

}  // namespace tessera::host
