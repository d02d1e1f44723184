#include "dsl/ir/roles.hpp"

#include <algorithm>
#include <bit>
#include <map>
#include <set>

#include "dsl/ir/effects.hpp"
#include "dsl/ir/meeting_stores.hpp"
#include "dsl/ir/walk.hpp"

namespace tessera::ir {

namespace {

constexpr int registers_of_multiprocessor = 65536, step = 8, warps_of_group = 4;
constexpr int fewest_registers = 24, most_registers = 256;
constexpr std::size_t most_roles = 15;  // named barriers beside the block's

/// Who does what with the mbarriers of one tile.
struct Mbarriers {
    int arrivals = 0;
    std::set<int> filled_by, released_by;
};

/// What one role touches.
struct Touched {
    Effects reads, writes;
    std::set<int> loaded, stored, added;        // tensors, by what is done with them
    std::vector<const Statement*> sure_stores;  // recorded
    std::map<int, std::set<int>> counted;       // shared tiles that only counted copies touch: by which mbarriers
    std::set<int> otherwise;                    // shared tiles touched in other ways
    std::map<int, Place> waits;                 // mbarriers waited for
};

class Search {
public:
    explicit Search(const Program& program) : program_(program) {}

    std::optional<TeamFault> run() {
        table(), budgets(), order();
        if (!fault_) collect();
        if (!fault_) mbarriers();
        if (!fault_) memories();
        if (!fault_) registers();
        return fault_;
    }

private:
    void require(bool holds, const char* rule, const Place& place, const std::string& text) {
        if (!holds && !fault_) fault_ = TeamFault{rule, place, text};
    }
    const std::string& name(int role) const { return program_.roles[static_cast<std::size_t>(role)].name; }
    const std::string& tile_name(int tile) const { return program_.shared[static_cast<std::size_t>(tile)].name; }

    void table() {
        int warps = 0;
        for (const WarpRole& r : program_.roles) {
            require(r.warps >= 1 && r.warps <= 32 && std::has_single_bit(static_cast<unsigned>(r.warps)), "role-warps",
                    r.place,
                    "role " + r.name + " has " + std::to_string(r.warps) +
                        " warps; a role has a power of two of them, so that tiles divide over its threads");
            require(r.first_warp == warps, "role-warps", r.place,
                    "role " + r.name + " does not begin where the role before it ends");
            warps += r.warps;
        }
        const Place place = program_.roles.front().place;
        require(program_.roles.size() <= most_roles, "role-warps", place,
                "more than 15 roles; each needs a barrier of its own, and a block has 16");
        require(warps <= 32, "role-warps", place,
                "the roles have " + std::to_string(warps) + " warps together; a block has 32 at most");
        require(warps * 32 == program_.threads, "role-warps", place,
                "the roles have " + std::to_string(warps) + " warps together, and the block has " +
                    std::to_string(program_.threads) + " threads; the roles share out all warps of the block");
    }

    void budgets() {
        const auto given = std::count_if(program_.roles.begin(), program_.roles.end(),
                                         [](const WarpRole& r) { return r.registers != 0; });
        if (given == 0) return;
        int wanted = 0;
        for (const WarpRole& r : program_.roles) {
            const std::string who = "role " + r.name + " with " + std::to_string(r.registers) + " registers a thread: ";
            require(r.registers != 0, "role-registers", r.place,
                    "role " + r.name + " has no budget of registers and another role has one; give each role one");
            require(r.registers % step == 0 && r.registers >= fewest_registers && r.registers <= most_registers,
                    "role-registers", r.place, who + "a budget is a multiple of 8 from 24 to 256");
            require(r.warps % warps_of_group == 0 && r.first_warp % warps_of_group == 0, "role-registers", r.place,
                    who + "registers are shared out among groups of four warps; a role with a budget has whole ones");
            wanted += r.threads() * r.registers;
        }
        const int room = registers_at_launch(program_) * program_.threads;
        require(wanted <= room, "role-registers", program_.roles.front().place,
                "the budgets of the roles ask for " + std::to_string(wanted) + " registers; a block of " +
                    std::to_string(program_.threads) + " threads has " + std::to_string(room) +
                    ": give some role fewer, or take fewer warps");
    }

    void order() {
        std::size_t next = 0;
        for (const Statement& s : program_.body) {
            const For* body = role_of(s);
            require(next == 0 || body || s.as<Comment>(), "role-last", s.place,
                    "something follows k.roles; the roles end the kernel, so it belongs into one of them");
            if (body) {
                require(static_cast<std::size_t>(body->role) == next++, "role-order", s.place,
                        "the bodies of the roles do not stand in the order of the roles");
                inside(body->body);
            } else if (const auto* loop = s.as<For>()) {
                inside(loop->body);
            }
        }
        require(next == program_.roles.size(), "role-order", program_.roles.front().place, "a role has no body");
    }
    void inside(const Body& body) {
        for_each_statement(body, [&](const Statement& s) {
            require(!role_of(s), "role-order", s.place,
                    "roles stand at the top level of a kernel, and in no other role");
        });
    }

    void collect() {
        touched_.resize(program_.roles.size());
        for (const Statement& s : program_.body) {
            if (const auto* init = s.as<InitMbarriers>()) mbarriers_[init->mbarriers].arrivals = init->arrivals;
            const For* body = role_of(s);
            if (!body) continue;
            Touched& t = touched_[static_cast<std::size_t>(body->role)];
            t.reads = reads_of(s), t.writes = writes_of(s);
            t.sure_stores = sure_stores(body->body);
            for_each_statement(body->body, [&](const Statement& inner) { note(inner, body->role, t); });
        }
    }
    static void note_tensors(const Statement& s, Touched& t) {
        const bool adds = s.as<Accumulate>() || s.as<AtomicAdd>();
        const auto note = [](const Effects& e, std::set<int>& tensors) {
            for (const MemoryId& m : e.memories)
                if (m.space == Space::global) tensors.insert(m.memory);
        };
        note(reads_of(s), adds ? t.added : t.loaded);
        note(writes_of(s), adds ? t.added : t.stored);
    }
    void note(const Statement& s, int role, Touched& t) {
        if (!s.as<For>()) note_tensors(s, t);
        const auto* copy = s.as<Copy>();
        const auto* vector = s.as<CopyVector>();
        const auto* commit = s.as<CommitCopies>();
        const auto* wait = s.as<WaitCopies>();
        const int counter = copy     ? copy->mbarriers
                            : vector ? vector->mbarriers
                            : commit ? commit->mbarriers
                            : wait   ? wait->mbarriers
                                     : 0;
        require(counter >= 0, "role-copies", s.place,
                "in a role copies go through a ring: ring.fill([&](Index slot) { copy_async(…); })");
        if (copy || vector) {
            t.counted[copy ? copy->to.memory : vector->to.memory].insert(counter);
            return;
        }
        if (commit) mbarriers_[counter].filled_by.insert(role);
        if (const auto* arrive = s.as<Arrive>()) mbarriers_[arrive->mbarriers].released_by.insert(role);
        if (wait) t.waits.emplace(counter, s.place);
        if (s.as<For>()) return;
        for (const Effects& e : {reads_of(s), writes_of(s)})
            for (const MemoryId& m : e.memories)
                if (m.space == Space::shared) t.otherwise.insert(m.memory);
    }

    void mbarriers() {
        for (const auto& [tile, m] : mbarriers_) {
            int warps = 0;
            for (int role : m.released_by) warps += program_.roles[static_cast<std::size_t>(role)].warps;
            const Place place = program_.shared[static_cast<std::size_t>(tile)].place;
            require(m.filled_by.size() <= 1, "ring-filled-twice", place,
                    "a ring is filled by two roles; one role fills it, others have rings of their own");
            require(m.released_by.empty() || (m.filled_by.empty() && m.arrivals == warps), "ring-arrivals", place,
                    tile_name(tile) + " expects " + std::to_string(m.arrivals) + " arrivals a phase, and " +
                        std::to_string(warps) + " warps arrive");
            require(!m.filled_by.empty() ? m.arrivals == 1 : true, "ring-arrivals", place,
                    tile_name(tile) + " expects " + std::to_string(m.arrivals) +
                        " arrivals a phase beside its bytes; " + "whoever fills it arrives once");
        }
        for (std::size_t role = 0; role < touched_.size(); ++role)
            for (const auto& [tile, place] : touched_[role].waits) {
                std::set<int> others = mbarriers_[tile].filled_by;
                others.insert(mbarriers_[tile].released_by.begin(), mbarriers_[tile].released_by.end());
                others.erase(static_cast<int>(role));
                require(!others.empty(), "ring-wait", place,
                        "role " + name(static_cast<int>(role)) + " waits for " + tile_name(tile) +
                            ", at which no other role arrives: a ring is filled by one role and used by others");
            }
    }

    void memories() {
        for (std::size_t a = 0; a < touched_.size(); ++a)
            for (std::size_t b = 0; b < touched_.size(); ++b) {
                if (a == b) continue;
                tensors(static_cast<int>(a), static_cast<int>(b));
                two(static_cast<int>(a), static_cast<int>(b));
                if (a < b && !ring_between(a, b)) stores(static_cast<int>(a), static_cast<int>(b));
            }
    }
    /// What role a writes to and role b touches in another way. Additions are not ordered among each other.
    void tensors(int a, int b) {
        const Touched &writer = touched_[static_cast<std::size_t>(a)], &other = touched_[static_cast<std::size_t>(b)];
        const Place place = program_.roles[static_cast<std::size_t>(b)].place;
        const auto told = [&](int tensor) {
            return "tensor " + program_.tensors[static_cast<std::size_t>(tensor)].name + " is written to by role " +
                   name(a) + " and ";
        };
        for (const std::set<int>* written : {&writer.stored, &writer.added})
            for (int tensor : *written)
                require(!other.loaded.count(tensor), "role-tensor", place,
                        told(tensor) + "read by role " + name(b) +
                            ", and nothing orders the two; read it in the role that writes it");
        for (int tensor : writer.stored)
            require(!other.added.count(tensor), "role-tensor", place,
                    told(tensor) + "added to by role " + name(b) +
                        ", and nothing orders the two; add to it by atomic_add in both, or write to it in one role");
    }
    /// Stores of both to the same elements of a tensor; the host executor sees those that are not sure.
    void stores(int a, int b) {
        for (const Statement* one : touched_[static_cast<std::size_t>(a)].sure_stores)
            for (const Statement* two : touched_[static_cast<std::size_t>(b)].sure_stores) {
                const Store &first = *one->as<Store>(), &second = *two->as<Store>();
                require(
                    !surely_meet(program_, first, second), "role-tensor", two->place,
                    "roles " + name(a) + " and " + name(b) + " store to the same elements of tensor " +
                        program_.tensors[static_cast<std::size_t>(first.view.memory)].name +
                        ", and nothing orders the two; store them in one role, or give each role a part of its own");
            }
    }
    bool ring_between(std::size_t a, std::size_t b) const {
        const auto waits = [&](std::size_t one, std::size_t other) {
            return std::any_of(touched_[one].waits.begin(), touched_[one].waits.end(), [&](const auto& wait) {
                const auto m = mbarriers_.find(wait.first);
                const int arrives = static_cast<int>(other);
                return m != mbarriers_.end() &&
                       (m->second.filled_by.count(arrives) > 0 || m->second.released_by.count(arrives) > 0);
            });
        };
        return waits(a, b) || waits(b, a);
    }
    /// What role a writes to in shared memory and role b touches.
    void two(int a, int b) {
        const Touched &writer = touched_[static_cast<std::size_t>(a)], &other = touched_[static_cast<std::size_t>(b)];
        const Place place = program_.roles[static_cast<std::size_t>(b)].place;
        for (const MemoryId& m : writer.writes.memories) {
            if (m.space == Space::global) continue;
            const bool touches = other.reads.touches(m) || other.writes.touches(m);
            if (!touches || mbarriers_.count(m.memory)) continue;
            const auto ordered = [](const Touched& fills, const Touched& uses, int tile) {
                const auto counted = fills.counted.find(tile);
                return counted != fills.counted.end() && !fills.otherwise.count(tile) && !uses.counted.count(tile) &&
                       std::all_of(counted->second.begin(), counted->second.end(),
                                   [&](int full) { return uses.waits.count(full) > 0; });
            };
            require(ordered(writer, other, m.memory) || ordered(other, writer, m.memory), "role-tile", place,
                    "shared tile " + tile_name(m.memory) + " is touched by the roles " + name(a) + " and " + name(b) +
                        ", and no ring orders the two; copy to it in one role by ring.fill and read it in the others "
                        "by ring.use");
        }
    }

    /// Registers belong to one role, or are only read once there are roles.
    void registers() {
        for (const Statement& s : program_.body) {
            const For* body = role_of(s);
            if (!body) continue;
            std::set<int> own;
            for_each_statement(body->body, [&](const Statement& inner) {
                if (const auto* declare = inner.as<Declare>()) own.insert(declare->array);
            });
            for (int array : writes_of(s).arrays)
                require(own.count(array) > 0, "role-registers", s.place,
                        "role " + name(body->role) + " writes to registers declared outside of it");
            for (int variable : reads_and_writes(s).variables)
                require(owner_.emplace(variable, body->role).first->second == body->role, "role-variable",
                        program_.variables[static_cast<std::size_t>(variable)].place,
                        "a variable is used by two roles; each role has its own threads, so make one in each");
        }
        for (const Statement& s : program_.body)
            if (!role_of(s))
                for (int variable : reads_and_writes(s).variables)
                    require(!owner_.count(variable), "role-variable",
                            program_.variables[static_cast<std::size_t>(variable)].place,
                            "a variable made outside of the roles is used in one; make it in the role");
    }
    static Effects reads_and_writes(const Statement& s) {
        Effects all = reads_of(s);
        all.add(writes_of(s));
        return all;
    }

    const Program& program_;
    std::vector<Touched> touched_;        // by role
    std::map<int, Mbarriers> mbarriers_;  // by tile
    std::map<int, int> owner_;            // of variables
    std::optional<TeamFault> fault_;
};

}  // namespace

int registers_at_launch(const Program& program) {
    const int blocks = std::max(program.least_blocks, 1);
    return std::min(registers_of_multiprocessor / (program.threads * blocks) / step * step, most_registers);
}

std::optional<TeamFault> find_role_fault(const Program& program) {
    if (program.roles.empty()) return {};
    return Search(program).run();
}

}  // namespace tessera::ir
