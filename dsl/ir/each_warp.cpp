#include "dsl/ir/each_warp.hpp"

#include <map>
#include <set>

#include "dsl/ir/effects.hpp"
#include "dsl/ir/walk.hpp"

namespace tessera::ir {

namespace {

class Search {
public:
    explicit Search(const Program& program) : program_(program) {}

    std::optional<TeamFault> run() {
        body(program_.body, nullptr);
        return fault_;
    }

private:
    void require(bool holds, const char* rule, const Place& place, const char* text) {
        if (!holds && !fault_) fault_ = TeamFault{rule, place, text};
    }

    /// `around`: what the statements stand in that gives them other threads than the block's.
    void body(const Body& statements, const For* around) {
        for (const Statement& s : statements) {
            const auto* loop = s.as<For>();
            if (around && around->each_warp) alone(s);
            if (!loop) {
                touch(s, around && around->each_warp ? around : nullptr);
                continue;
            }
            if (loop->each_warp) begins(s, around);
            const bool apart = loop->each_warp || loop->role >= 0 || loop->warp;
            body(loop->body, apart ? loop : around);
        }
    }

    void begins(const Statement& s, const For* around) {
        require(!around || around->role < 0, "each-warp-nested", s.place,
                "k.each_warp in a role; a role of one warp is such a warp already, and others share out their work by "
                "k.serial");
        require(!around || around->role >= 0, "each-warp-nested", s.place,
                "k.each_warp inside another or in a condition by warps; a warp has nobody to share its turns with: "
                "use k.serial, or move it out");
    }

    /// A statement that a warp runs by itself.
    void alone(const Statement& s) {
        const auto* loop = s.as<For>();
        const auto* bind = s.as<Bind>();
        const auto* product = bind ? bind->value->as<Mma>() : nullptr;
        require(!loop || !loop->warp, "each-warp-vote", s.place,
                "a condition by warps inside k.each_warp; there any(…) and all(…) are a warp's own already: use these");
        require(
            !s.as<Copy>() && !s.as<CopyVector>() && !s.as<CopyBox>() && !s.as<WaitCopies>() && !s.as<CommitCopies>(),
            "each-warp-copies", s.place,
            "an asynchronous copy, or a wait for one, inside k.each_warp; whole blocks count and wait for copies: "
            "copy and wait ahead of it, or load the piece in it");
        require(!s.as<GridSync>() && !s.as<InitMbarriers>() && !s.as<Arrive>(), "each-warp-meeting", s.place,
                "something inside k.each_warp that all warps of the block must come to; move it out");
        require(!s.as<WarpgroupMma>() && !s.as<MmaFence>() && !s.as<MmaWait>() &&
                    !(product && (product->shared_a || product->shared_b)),
                "each-warp-product", s.place,
                "mma of an operand in shared memory inside k.each_warp; four warps together read it there: give mma "
                "the loaded tile");
    }

    /// Registers belong to the warps that run a body by themselves, or are only read in it.
    void touch(const Statement& s, const For* around) {
        Effects writes = writes_of(s);
        if (const auto* declare = s.as<Declare>()) declared_in_[declare->array] = around;
        for (int array : writes.arrays)
            require(!around || declared_in_[array] == around, "each-warp-registers", s.place,
                    "warps by themselves write to registers declared outside");
        for (int variable : writes.variables) {
            const For* owner = owner_.emplace(variable, around).first->second;
            require(!around || owner == around, "each-warp-variable", s.place,
                    "a variable made outside of k.each_warp is assigned in it; which warp's value would the block "
                    "see? Keep it in a shared tile: store to an element of each item, or atomic_add");
        }
        for (int variable : reads_of(s).variables) {
            const auto owner = owner_.find(variable);
            const bool number = program_.variables[static_cast<std::size_t>(variable)].shape.empty();
            require(number || owner == owner_.end() || owner->second == around, "each-warp-variable", s.place,
                    "a variable made outside of k.each_warp is read in it; its tile lies with all threads of the "
                    "block: hand it over in a shared tile");
        }
    }

    const Program& program_;
    std::map<int, const For*> declared_in_, owner_;  // arrays; variables
    std::optional<TeamFault> fault_;
};

}  // namespace

bool has_each_warp(const Program& program) {
    bool found = false;
    for_each_statement(program.body, [&](const Statement& s) { found = found || each_warp_of(s); });
    return found;
}

std::optional<TeamFault> find_each_warp_fault(const Program& program) {
    if (!has_each_warp(program)) return {};
    return Search(program).run();
}

}  // namespace tessera::ir
