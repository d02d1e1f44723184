#include "dsl/front/roles.hpp"

#include <fmt/format.h>

#include "dsl/base/error.hpp"
#include "dsl/front/recorder.hpp"
#include "dsl/ir/roles.hpp"

// Roles of warps, and rings that hand slots from one role to others. A ring is two tiles of mbarriers: `full` counts
// the bytes of a slot, `empty` the warps that are done with it. Slot and phase are variables of each role that takes
// part.

namespace tessera::detail {

namespace {

constexpr int most_stages = 32;

/// The role that a fill or use stands in.
int role_here(Recorder& r, std::uint64_t recording, const char* what, const Place& place) {
    require_recording(recording, place);
    if (r.issues_copies())
        throw UsageError(place, fmt::format("{} inside a function that only starts copies; move it out", what));
    if (r.by_warps())
        throw UsageError(place, fmt::format("{} in a condition by warps; all warps of a role take part in a ring, so "
                                            "use a condition of the role (any, all)",
                                            what));
    if (r.role() < 0)
        throw UsageError(place, fmt::format("{} outside of the roles; a ring stands between the roles of k.roles, and "
                                            "one block that copies ahead of itself is k.pipelined",
                                            what));
    return r.role();
}

class RingEnd {
public:
    RingEnd(Recorder::Ring::State state, int stages, const Place& place)
        : slot(variable_read(state.slot, place)),
          parity(variable_read(state.parity, place)),
          state_(state),
          stages_(stages),
          place_(place) {}

    Ref other_parity() const { return binary(ir::BinaryOp::bit_xor, parity, number(1), place_); }

    void advance() const {
        const Ref next = binary(ir::BinaryOp::add, slot, number(1), place_);
        const Ref last = binary(ir::BinaryOp::eq, next, number(stages_), place_);
        assign(state_.slot, select(last, number(0), next, place_), place_);
        assign(state_.parity, select(last, other_parity(), parity, place_), place_);
    }

    const Ref slot, parity;

private:
    Ref number(std::int64_t n) const { return constant(i64, n, place_); }
    Recorder::Ring::State state_;
    int stages_;
    Place place_;
};

}  // namespace

int ring(int stages, const Place& place) {
    Recorder& r = Recorder::active(place);
    if (r.in_loop() || !r.program().roles.empty())
        throw UsageError(place,
                         "a ring is made in a loop, a condition or a role; make it at the top level, ahead of "
                         "k.roles");
    if (stages < 1 || stages > most_stages)
        throw UsageError(place, fmt::format("a ring of {} stages; it has from 1 to {}", stages, most_stages));
    const int full = r.mbarriers("full", stages, place), empty = r.mbarriers("empty", stages, place);
    r.append(place, ir::InitMbarriers{full});
    r.append(place, ir::InitMbarriers{empty});
    r.rings.push_back({stages, full, empty, place, -1, false, {}});
    return static_cast<int>(r.rings.size()) - 1;
}

void ring_fill(int id, std::uint64_t recording, FunctionRef<Ref> issue, const Place& place) {
    Recorder& r = Recorder::active(place);
    const int role = role_here(r, recording, "ring.fill", place);
    Recorder::Ring& ring = r.rings[static_cast<std::size_t>(id)];
    if (ring.filled_by >= 0 && ring.filled_by != role)
        throw UsageError(place, "a ring is filled by a second role; one role fills a ring, so make one for each");
    if (ring.filled_by < 0 && ring.states.count(role))
        throw UsageError(place,
                         "a role fills the ring that it uses; it would wait for itself: fill it in another role");
    ring.filled_by = role;
    const RingEnd end(r.ring_state(ring, place), ring.stages, place);
    r.append(place, ir::WaitCopies{0, ring.empty, end.slot, end.other_parity(), true});
    {
        const Recorder::Pipeline pipeline{ring.stages, ring.full, end.slot, false, "the function of ring.fill", "ring"};
        struct Issuing {  // ends also where the writer's function throws
            Recorder& r;
            ~Issuing() { r.set_pipeline(nullptr); }
        } const issuing{r};
        r.set_pipeline(&pipeline);
        issue(end.slot);
    }
    r.append(place, ir::CommitCopies{ring.full, end.slot});
    end.advance();
}

void ring_use(int id, std::uint64_t recording, FunctionRef<Ref> body, const Place& place) {
    Recorder& r = Recorder::active(place);
    const int role = role_here(r, recording, "ring.use", place);
    Recorder::Ring& open = r.rings[static_cast<std::size_t>(id)];
    if (open.open)
        throw UsageError(place,
                         "ring.use inside ring.use of the same ring; a slot is given back before the next one is "
                         "taken: put them one after the other");
    const Recorder::Ring ring = open;
    if (ring.filled_by == role)
        throw UsageError(place, "a role uses the ring that it fills; it would wait for itself: use it in another role");
    const RingEnd end(r.ring_state(open, place), ring.stages, place);
    r.append(place, ir::WaitCopies{0, ring.full, end.slot, end.parity});
    open.open = true;
    body(end.slot);
    r.rings[static_cast<std::size_t>(id)].open = false;
    r.append(place, ir::Arrive{ring.empty, end.slot});
    end.advance();
}

void roles(const RoleOptions* options, const FunctionRef<>* bodies, int count, const Place& place) {
    Recorder& r = Recorder::active(place);
    if (r.in_loop())
        throw UsageError(place,
                         "k.roles in a loop, a condition or another role; roles stand at the top level of a "
                         "kernel and end it: put the loop into each of them");
    if (!r.program().roles.empty()) throw UsageError(place, "k.roles is called twice; it ends the kernel");
    int warps = 0;
    for (int i = 0; i < count; ++i) {
        const std::string wanted = options[i].name ? options[i].name : fmt::format("role_{}", i + 1);
        r.program().roles.push_back({r.require_new_name(wanted.c_str(), "a role", place), warps, options[i].warps,
                                     options[i].registers, place});
        warps += options[i].warps;
    }
    if (r.threads_set != 0 && r.threads_set != 32 * warps)
        throw UsageError(place,
                         fmt::format("k.threads({}) stands ahead of k.roles with {} warps, which are {} threads: "
                                     "roles share out all warps of the block; leave k.threads out, or give the "
                                     "roles {} warps",
                                     r.threads_set, warps, 32 * warps, r.threads_set / 32));
    r.program().threads = 32 * warps;
    for (int i = 0; i < count; ++i) {
        ir::Body& opened = r.open_role(i, place);
        {
            const ScopeCloser closer;
            bodies[i]();
        }
        r.close_role(opened);
    }
}

void Recorder::finish_roles() {
    for (const Ring& ring : rings) {
        const bool used = ring.states.size() > (ring.filled_by >= 0 ? 1u : 0u);
        if (ring.filled_by < 0 || !used)
            throw UsageError(ring.place, fmt::format("a ring that no role {}; one role calls ring.fill and others "
                                                     "ring.use",
                                                     ring.filled_by < 0 ? "fills" : "uses"));
        int warps = 0;
        for (const auto& [role, state] : ring.states)
            if (role != ring.filled_by) warps += program_->roles[static_cast<std::size_t>(role)].warps;
        for (ir::Statement& s : program_->body)
            if (auto* init = s.as<ir::InitMbarriers>(); init && init->mbarriers == ring.empty) init->arrivals = warps;
    }
    if (const auto fault = ir::find_role_fault(*program_)) throw UsageError(fault->place, fault->text);
}

/// Slot and phase of a ring in the role that is open, made where the role begins.
Recorder::Ring::State Recorder::ring_state(Ring& ring, const Place& place) {
    if (const auto known = ring.states.find(role()); known != ring.states.end()) return known->second;
    const auto made = [&](const char* what) {
        const int id = static_cast<int>(program_->variables.size());
        program_->variables.push_back({fmt::format("{}{}", what, id), i64, {}, place});
        variable_scope_.push_back(open_[1].id);
        prologue_.push_back({place, ir::Assign{id, constant(i64, std::int64_t{0}, place)}});
        return id;
    };
    const int slot = made("slot");
    return ring.states[role()] = {slot, made("parity")};
}

ir::Body& Recorder::open_role(int role, const Place& place) {
    const auto number = [&](std::uint64_t n) { return make(i64, {}, place, ir::Constant{n}); };
    const Ref begin = number(0), end = number(1), step = number(1);
    const int loop = program_->loops++;
    ir::For body{loop, fmt::format("i{}", loop), begin, end, step, false, {}, true};
    body.role = role;
    append(place, std::move(body));
    const int team = scopes_++;
    open({team, &open_.back().body->back().as<ir::For>()->body, role, false, false, team});
    prologue_.clear();
    return *open_.back().body;
}

void Recorder::close_role(ir::Body& opened) { opened.insert(opened.begin(), prologue_.begin(), prologue_.end()); }

}  // namespace tessera::detail
