#pragma once

#include <concepts>
#include <cstdint>
#include <source_location>
#include <type_traits>

#include "dsl/base/element.hpp"
#include "dsl/base/place.hpp"
#include "dsl/base/shape.hpp"
#include "dsl/ir/ops.hpp"

// What the templates of the front end call. Everything here checks its arguments and throws UsageError at the writer's
// place; nodes go to the recorder of the calling thread.

namespace tessera::ir {
struct Node;
}

namespace tessera::detail {

using Ref = const ir::Node*;

template <auto...>
inline constexpr bool never = false;
template <class...>
inline constexpr bool never_type = false;

/// Number of the recording under way on this thread, from 1; 0 outside of record(). Handles remember it, so that one of
/// another recording is known without looking at what it pointed to.
std::uint64_t recording_now() noexcept;
/// UsageError unless the handle was made in the recording under way.
void require_recording(std::uint64_t recording, const Place& place);

Ref constant(Element type, double value, const Place& place);
Ref constant(Element type, std::int64_t value, const Place& place);
Ref constant(Element type, std::uint64_t value, const Place& place);
Ref unary(ir::UnaryOp op, Ref value, const Place& place);
Ref binary(ir::BinaryOp op, Ref a, Ref b, const Place& place);
Ref fma(Ref a, Ref b, Ref c, const Place& place);
/// signs: null if those of all codes count.
Ref lookup(Ref codes, const Ref (&table)[8], Ref signs, const Place& place);
Ref select(Ref condition, Ref a, Ref b, const Place& place);
Ref cast(Element to, Ref value, const Place& place, bool bounded = false);
Ref bitcast(Element to, Ref value, const Place& place);
Ref reduce(ir::ReduceOp op, Ref value, int axis, const Place& place);
/// Σ a · b along an axis.
Ref dot(Ref a, Ref b, int axis, const Place& place);
/// The reduction over all axes, of rank 0.
Ref reduce_all(ir::ReduceOp op, Ref value, const Place& place);
/// Any (max) or all (min) of what each warp holds of a mask, of rank 0; for open_when alone.
Ref warp_vote(ir::ReduceOp op, Ref mask, const Place& place);
Ref scan(Ref value, int axis, bool exclusive, const Place& place);
Ref split(Ref value, int axis, std::int64_t inner, const Place& place);
Ref merge(Ref value, int axis, const Place& place);
Ref squeeze(Ref value, int axis, const Place& place);
Ref unsqueeze(Ref value, int axis, const Place& place);
Ref permute(Ref value, const int* order, int rank, const Place& place);
Ref broadcast_to(Ref value, const Shape& shape, const Place& place);
Ref coordinate(const Shape& shape, int axis, const Place& place);
std::int64_t extent_of(Ref value, int axis, const Place& place);

/// A piece of a tensor or shared tile that is being addressed. Offsets are i64, rank 0.
struct ViewSpec {
    ir::Space space = ir::Space::global;
    int memory = 0;
    int rank = 0;                 // of the memory
    std::uint64_t recording = 0;  // that the memory belongs to
    Ref offset[Shape::max_rank] = {};
    std::int64_t extent[Shape::max_rank] = {};
    bool picked[Shape::max_rank] = {};
};
/// Slots that one thread holds side by side along each axis of a tile; rank 0: the lowering's own rule.
using PerThread = Shape;
Ref load(const ViewSpec& view, Ref fill, const PerThread& per_thread, const Place& place, int lanes = 0,
         ir::Cache cache = ir::Cache::normal);
void store(const ViewSpec& view, Ref value, const Place& place, ir::Cache cache = ir::Cache::normal);
void atomic_add(const ViewSpec& view, Ref value, const Place& place);
void copy_async(const ViewSpec& to, const ViewSpec& from, const PerThread& per_thread, const Place& place);
void wait_copies(const Place& place);
void grid_sync(const Place& place);
/// value: null if there is none to tell.
void report(Ref bad, const char* rule, const ViewSpec& view, Ref value, const Place& place);

/// One axis of a tensor parameter as the writer gave it.
struct AxisSpec {
    Ref extent = nullptr;
    Ref stride = nullptr;  // null: dense
    int inner = 1;
    std::int64_t inner_stride = 0;
};
int tensor(const char* name, Element type, ir::Role role, const AxisSpec* axes, int rank, int align,
           const Place& place);
Ref scalar(const char* name, Element type, std::int64_t multiple_of, const Place& place);
int shared_tile(const char* name, Element type, const Shape& shape, int bits, int base, int shift, const Place& place);
int variable(Ref init, const Place& place);
Ref variable_read(int variable, const Place& place);
void assign(int variable, Ref value, const Place& place);
void set_threads(int threads, int least_blocks, const Place& place);
void set_dependent_launch(const Place& place);
void grid(const Ref* extents, int rank, Ref* indices, const Place& place);

/// Opens a serial loop and returns its counter; close_scope ends it.
Ref open_serial(Ref begin, Ref end, Ref step, const Place& place);
Ref open_each_warp(Ref count, const Place& place);
/// Opens what runs only where the condition, a boolean of rank 0, holds; close_scope ends it. The condition made by
/// warp_vote is one for each warp.
void open_when(Ref condition, const Place& place);
void close_scope() noexcept;
/// Closes the scope also where the writer's function throws.
struct ScopeCloser {
    ScopeCloser() = default;
    ScopeCloser(const ScopeCloser&) = delete;
    ~ScopeCloser() { close_scope(); }
};

/// A borrowed callable, in place of std::function.
template <class... Args>
class FunctionRef {
public:
    template <class F>
        requires(!std::same_as<std::remove_const_t<F>, FunctionRef>)
    FunctionRef(F& f)
        : object_(const_cast<void*>(static_cast<const void*>(&f))),
          call_([](void* object, Args... args) { (*static_cast<F*>(object))(args...); }) {}
    void operator()(Args... args) const { call_(object_, args...); }

private:
    void* object_;
    void (*call_)(void*, Args...);
};

/// See Kernel::pipelined; the functions get an iteration and its slot, i64 of rank 0.
void pipelined(Ref count, int stages, ir::Copies engine, FunctionRef<Ref, Ref> issue, FunctionRef<Ref, Ref> body,
               const Place& place);

}  // namespace tessera::detail
