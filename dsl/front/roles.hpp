#pragma once

#include "dsl/front/functions.hpp"

namespace tessera {

/// A range of whole warps of the block. warps: a power of two. registers: of a thread while the role runs, a multiple
/// of 8 from 24 to 256; all roles have such a budget and whole groups of four warps, or none has. Together the budgets
/// fit the 64 K registers of a multiprocessor. name: what errors and the CUDA text call it.
struct RoleOptions {
    const char* name = nullptr;
    int warps = 1;
    int registers = 0;
};

/// stages: slots of the ring's tiles, 1 … 32.
struct RingOptions {
    int stages = 4;
};

namespace detail {
int ring(int stages, const Place& place);
void ring_fill(int ring, std::uint64_t recording, FunctionRef<Ref> issue, const Place& place);
void ring_use(int ring, std::uint64_t recording, FunctionRef<Ref> body, const Place& place);
void roles(const RoleOptions* options, const FunctionRef<>* bodies, int count, const Place& place);
}  // namespace detail

/// Hands slots of shared tiles from the role that fills them to the roles that use them, in order; made by k.ring.
/// Every fill is met by one use in each of the roles that use the ring.
class Ring {
public:
    explicit Ring(int id) : id_(id), recording_(detail::recording_now()) {}

    /// By one role: waits until the next slot is free, then issue(slot) starts the copies to it, in bulk
    /// (Copies::bulk), by copy_async to shared tiles whose first axis is the stage, picked by the slot; it does nothing
    /// else. Rows must be multiples of 16 bytes and divide the tensor's extent; those outside of the tensor are left as
    /// they were.
    template <class Issue>
    void fill(Issue&& issue, std::source_location at = std::source_location::current()) const {
        auto start = [&](detail::Ref slot) { issue(Index(slot)); };
        detail::ring_fill(id_, recording_, detail::FunctionRef<detail::Ref>(start), Place(at));
    }

    /// By each of the other roles that need what was copied: waits until the next slot is full, runs body(slot), which
    /// reads the tiles there, and gives the slot back.
    template <class Body>
    void use(Body&& body, std::source_location at = std::source_location::current()) const {
        auto read = [&](detail::Ref slot) { body(Index(slot)); };
        detail::ring_use(id_, recording_, detail::FunctionRef<detail::Ref>(read), Place(at));
    }

private:
    int id_;
    std::uint64_t recording_;
};

}  // namespace tessera
