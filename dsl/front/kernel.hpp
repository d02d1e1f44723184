#pragma once

#include "dsl/front/functions.hpp"
#include "dsl/front/memory.hpp"
#include "dsl/front/program.hpp"
#include "dsl/front/roles.hpp"
#include "dsl/front/selection.hpp"
#include "dsl/front/tensor_core.hpp"

namespace tessera {

/// A fact about a launch-time number, checked at launch.
struct MultipleOf {
    std::int64_t value = 1;
};
constexpr MultipleOf multiple_of(std::int64_t n) { return {n}; }

/// Distance between neighbours along an axis, in elements. packed(inner, inner_stride): coordinate c lies
/// (c / inner) · stride + (c % inner) · inner_stride from the start, as in packed scales (word, byte).
struct AxisStride {
    detail::Ref node = nullptr;
    int inner = 1;
    std::int64_t inner_stride = 0;

    AxisStride() = default;
    AxisStride(std::integral auto n, std::source_location at = std::source_location::current())
        : node(detail::number<i64>(n, Place(at))) {}
    AxisStride(const Index& n, std::source_location at = std::source_location::current()) : node(n.node(at)) {}
    AxisStride packed(int in, std::int64_t stride) const {
        AxisStride s = *this;
        s.inner = in;
        s.inner_stride = stride;
        return s;
    }
};

/// Facts about a tensor parameter, checked at launch. align: bytes that the base address is a multiple of.
/// strides: one for each axis; none: dense, row-major.
struct TensorOptions {
    int align = 16;
    AxisStride strides[Shape::max_rank] = {};
};

/// Who makes the copies of k.pipelined: vectors (cp.async), bulk (rows by the copy engine), tensor (pieces by it); see
/// ir::Copies (dsl/ir/ops.hpp) for what each asks of tensor and tile.
using ir::Copies;

/// stages: slots of the shared tiles, 2 … 32; the copies of stages − 1 iterations are under way while one runs.
struct PipelineOptions {
    int stages = 3;
    Copies engine = Copies::vectors;
};

/// The recorder that a kernel is written on; see record().
class Kernel {
public:
    explicit Kernel(std::uint64_t recording) : recording_(recording) {}
    Kernel(const Kernel&) = delete;

    /// Threads of a block: a multiple of 32 from 32 to 1024; 128 unless set. Tiles of the block divide over a power of
    /// two of them; with other numbers they lie in k.each_warp alone.
    /// least_blocks: how many blocks of a multiprocessor registers must leave room for; 1 keeps the compiler from
    /// spilling for the sake of more. 0 leaves it the choice.
    void threads(int n, int least_blocks = 0, std::source_location at = std::source_location::current()) {
        detail::set_threads(n, least_blocks, here(at));
    }

    /// Programmatic dependent launch: lets the kernel be started early (LaunchOptions::dependent), while the kernel
    /// ahead of it in the stream still runs. Its blocks then take places as they come free and wait here until that
    /// kernel is done and its writes are visible. What is recorded before runs meanwhile: of tensors it loads inputs at
    /// most, which the kernel ahead must not write (nobody checks that). Without that option, and on the host, nothing
    /// is waited for. Errors: UsageError behind other uses of tensors, twice, in a loop or condition, with grid_sync.
    void dependent_launch(std::source_location at = std::source_location::current()) {
        detail::set_dependent_launch(here(at));
    }

    /// Waits until all blocks of the grid have come here; what any of them has written to tensors before is seen by all
    /// after. Only at the top level of the kernel, not in a loop or a condition. All blocks must fit the GPU at once,
    /// or the launch is refused: take few, large ones.
    void grid_sync(std::source_location at = std::source_location::current()) { detail::grid_sync(here(at)); }

    /// A dimension or stride known only at launch; bound from the tensors whose extents or strides name it.
    Dim dim(const char* name, MultipleOf fact = {}, std::source_location at = std::source_location::current()) {
        return Dim(detail::scalar(name, i64, fact.value, here(at)));
    }
    /// A number given at each launch.
    template <Element T>
    Value<T, 0> scalar(const char* name, std::source_location at = std::source_location::current()) {
        return Value<T, 0>(detail::scalar(name, T, 1, here(at)));
    }

    template <Element T, int R>
    Global<T, R> input(const char* name, const Extent (&extents)[R], const TensorOptions& options = {},
                       std::source_location at = std::source_location::current()) {
        return tensor<T, R>(ir::Role::input, name, extents, options, here(at));
    }
    template <Element T, int R>
    Global<T, R> output(const char* name, const Extent (&extents)[R], const TensorOptions& options = {},
                        std::source_location at = std::source_location::current()) {
        return tensor<T, R>(ir::Role::output, name, extents, options, here(at));
    }
    /// Read and written in place.
    template <Element T, int R>
    Global<T, R> inout(const char* name, const Extent (&extents)[R], const TensorOptions& options = {},
                       std::source_location at = std::source_location::current()) {
        return tensor<T, R>(ir::Role::inout, name, extents, options, here(at));
    }

    /// A tile in the block's shared memory, row-major under the swizzle.
    template <Element T, int R>
    Shared<T, R> shared(const char* name, const std::int64_t (&extents)[R], SwizzleOptions swizzle = {},
                        std::source_location at = std::source_location::current()) {
        const Shape shape = detail::shape_of(extents);
        detail::ViewSpec base;
        base.space = ir::Space::shared;
        base.memory = detail::shared_tile(name, T, shape, swizzle.bits, swizzle.base, swizzle.shift, here(at));
        base.rank = R;
        base.recording = recording_;
        return Shared<T, R>(base, shape);
    }

    /// Says what is wrong with data that only the kernel sees. `where` is a piece of a tensor of rank 1 or 2; elements
    /// of it that lie inside the tensor and that `bad` marks break the rule, a sentence like "a position is a row of
    /// out". The first of them (the lowest rule in the order of the program, then row-major) is told, with `value`,
    /// as a UsageError: on a GPU by the next synchronisation, on the host at the end of the launch. The launch runs to
    /// its end, so bad elements are to be masked all the same. A kernel has at most 255 rules.
    template <int R, Element T, int P>
    void report(const Value<boolean, R>& bad, const char* rule, const Piece<T, P>& where,
                std::source_location at = std::source_location::current()) {
        static_assert(P == R, "tessera: a report's mask has the rank of the piece that it marks elements of");
        detail::report(bad.node(here(at)), rule, where.spec(), nullptr, at);
    }
    template <int R, Element T, int P, Element V, int S>
    void report(const Value<boolean, R>& bad, const char* rule, const Piece<T, P>& where, const Value<V, S>& value,
                std::source_location at = std::source_location::current()) {
        static_assert(P == R, "tessera: a report's mask has the rank of the piece that it marks elements of");
        static_assert(S == R || S == 0, "tessera: a report's value has the rank of its mask, or is a number");
        detail::report(bad.node(here(at)), rule, where.spec(), value.node(at), at);
    }

    struct Grid1 {
        Index x;
    };
    struct Grid2 {
        Index x, y;
    };
    struct Grid3 {
        Index x, y, z;
    };
    /// The grid of blocks, once in a kernel; gives this block's indices. The last axis runs fastest.
    Grid1 grid(const Extent& a, std::source_location at = std::source_location::current()) {
        const detail::Ref extents[] = {a.node};
        detail::Ref i[1];
        detail::grid(extents, 1, i, here(at));
        return {Index(i[0])};
    }
    Grid2 grid(const Extent& a, const Extent& b, std::source_location at = std::source_location::current()) {
        const detail::Ref extents[] = {a.node, b.node};
        detail::Ref i[2];
        detail::grid(extents, 2, i, here(at));
        return {Index(i[0]), Index(i[1])};
    }
    Grid3 grid(const Extent& a, const Extent& b, const Extent& c,
               std::source_location at = std::source_location::current()) {
        const detail::Ref extents[] = {a.node, b.node, c.node};
        detail::Ref i[3];
        detail::grid(extents, 3, i, here(at));
        return {Index(i[0]), Index(i[1]), Index(i[2])};
    }

    template <Element T, int R>
    Variable<T, R> variable(const Value<T, R>& init, std::source_location at = std::source_location::current()) {
        return Variable<T, R>(detail::variable(init.node(at), here(at)));
    }

    /// body(i) for i = 0 … count − 1, one after the other.
    template <class Body>
    void serial(const Extent& count, Body&& body, std::source_location at = std::source_location::current()) {
        const Place place = here(at);
        const detail::Ref i = detail::open_serial(detail::constant(i64, std::int64_t{0}, place), count.node,
                                                  detail::constant(i64, std::int64_t{1}, place), place);
        const detail::ScopeCloser closer;
        body(Index(i));
    }

    /// body(i) for i = 0 … count − 1, each by one warp: warp w of the W warps of the block takes the turns w, w + W, …,
    /// beside the others and at its own pace. Inside, everything means what it means in a block of one warp: tiles lie
    /// over its 32 lanes, reductions cross these, and a count of k.serial, a condition of k.when or any other number
    /// may differ from warp to warp. It is a statement like others: what the block has done before is seen in it, and
    /// what it stores is seen after. Warps share tensors and shared tiles; between two of them nothing is ordered but
    /// atomic_add, and a shared tile of a piece for each warp is picked along by i % W. Tiles and variables of the
    /// block stay outside, numbers come in. Not inside: copies, pipelines, roles, another each_warp.
    ///
    ///     k.each_warp(32, [&](Index i) {
    ///         const Index row = block * 32 + i;
    ///         const Index first = cast<i64>(load(starts[row])), last = cast<i64>(load(starts[row + 1]));
    ///         auto total = k.variable(full({256}, Value<f32, 0>(0.0f)));
    ///         k.serial(last - first, [&](Index j) { total = total.get() + load(x[first + j].block({256}, {0})); });
    ///         store(y[row].block({256}, {0}), total.get());
    ///     });
    template <class Body>
    void each_warp(const Extent& count, Body&& body, std::source_location at = std::source_location::current()) {
        const detail::Ref i = detail::open_each_warp(count.node, here(at));
        const detail::ScopeCloser closer;
        body(Index(i));
    }

    /// body(i, slot) for i = 0 … count − 1, one after the other, while the copies of later iterations are under way:
    /// issue(i, slot) starts those of iteration i, by copy_async to shared tiles whose first axis is the stage, picked
    /// by the slot, and does nothing else; body(i, slot) reads them there. A slot is copied to again when the iteration
    /// that read it is over. Waits and barriers are placed. Only a pipeline by vectors may stand in a loop.
    template <class Issue, class Body>
    void pipelined(const Extent& count, const PipelineOptions& options, Issue&& issue, Body&& body,
                   std::source_location at = std::source_location::current()) {
        auto start = [&](detail::Ref i, detail::Ref slot) { issue(Index(i), Index(slot)); };
        auto use = [&](detail::Ref i, detail::Ref slot) { body(Index(i), Index(slot)); };
        using Function = detail::FunctionRef<detail::Ref, detail::Ref>;
        detail::pipelined(count.node, options.stages, options.engine, Function(start), Function(use), here(at));
    }

    /// Slots of shared tiles that one role fills and others use; at the top level, ahead of k.roles.
    Ring ring(const RingOptions& options = {}, std::source_location at = std::source_location::current()) {
        return Ring(detail::ring(options.stages, here(at)));
    }

    /// Divides the warps of the block into roles, in order, each with a body of its own, all of which run at once. In a
    /// body tiles lie with the role's threads and barriers are the role's own. Roles share nothing but rings: no other
    /// shared tile, no tile in registers, no variable. They end the kernel, and set its number of threads. In short
    /// (complete: examples/bias_gradient.cpp):
    ///
    ///     const auto ring = k.ring({.stages = 4});
    ///     k.roles({.name = "producer", .warps = 4, .registers = 40},
    ///             [&] { k.serial(n, [&](Index i) {
    ///                 ring.fill([&](Index slot) {
    ///                     copy_async(tile[slot].whole(), x[i].block({columns}, {0})); }); }); },
    ///             {.name = "consumer", .warps = 8, .registers = 232},
    ///             [&] {
    ///                 auto sum = k.variable(full({columns}, Value<f32, 0>(0.0f)));
    ///                 k.serial(n, [&](Index) {
    ///                     ring.use([&](Index slot) { sum = sum.get() + load(tile[slot].whole()); }); });
    ///                 store(y.block({columns}, {0}), sum.get());
    ///             });
    template <class A, class B>
    void roles(const RoleOptions& a, A&& body_a, const RoleOptions& b, B&& body_b,
               std::source_location at = std::source_location::current()) {
        const RoleOptions options[] = {a, b};
        const detail::FunctionRef<> bodies[] = {detail::FunctionRef<>(body_a), detail::FunctionRef<>(body_b)};
        detail::roles(options, bodies, 2, here(at));
    }
    template <class A, class B, class C>
    void roles(const RoleOptions& a, A&& body_a, const RoleOptions& b, B&& body_b, const RoleOptions& c, C&& body_c,
               std::source_location at = std::source_location::current()) {
        const RoleOptions options[] = {a, b, c};
        const detail::FunctionRef<> bodies[] = {detail::FunctionRef<>(body_a), detail::FunctionRef<>(body_b),
                                                detail::FunctionRef<>(body_c)};
        detail::roles(options, bodies, 3, here(at));
    }

    /// body(i) for i = 0 … count − 1, written out: in every copy i is a number.
    template <class Body>
    void unrolled(std::int64_t count, Body&& body, std::source_location at = std::source_location::current()) {
        const Place place = here(at);
        for (std::int64_t i = 0; i < count; ++i) body(Index(detail::constant(i64, i, place)));
    }

    /// What may follow when(): the other case.
    class Otherwise {
    public:
        explicit Otherwise(const Value<boolean, 0>& condition) : condition_(condition) {}
        template <class Body>
        void otherwise(Body&& body, std::source_location at = std::source_location::current()) const {
            const Place place(at);
            detail::open_when(detail::unary(ir::UnaryOp::bit_not, condition_.node(place), place), place);
            const detail::ScopeCloser closer;
            body();
        }

    private:
        Value<boolean, 0> condition_;
    };

    /// body() only in blocks where the condition holds; it is the same for all threads of a block: any(…), all(…), a
    /// comparison of indices or of loaded numbers. What changes inside goes out by k.variable.
    template <class Body>
    Otherwise when(const Value<boolean, 0>& condition, Body&& body,
                   std::source_location at = std::source_location::current()) {
        const Place place = here(at);
        detail::open_when(condition.node(place), place);
        {
            const detail::ScopeCloser closer;
            body();
        }
        return Otherwise(condition);
    }

    /// What may follow when() by warps.
    class WarpOtherwise {
    public:
        explicit WarpOtherwise(const WarpTruth& truth) : truth_(truth) {}
        template <class Body>
        void otherwise(Body&& body, std::source_location at = std::source_location::current()) const {
            const Place place(at);
            detail::open_when(detail::unary(ir::UnaryOp::bit_not, truth_.node(), place), place);
            const detail::ScopeCloser closer;
            body();
        }

    private:
        WarpTruth truth_;
    };

    /// body() in the warps where the truth holds, by warp_any(…) or warp_all(…); other warps pass it by. Nothing in the
    /// body crosses warps: a reduction stays within one, a shared tile is not touched. What a warp holds is the
    /// layout's matter, so the two cases should differ in cost only: `when(warp_all(ok), fast).otherwise(general)`.
    template <class Body>
    WarpOtherwise when(const WarpTruth& truth, Body&& body, std::source_location at = std::source_location::current()) {
        const Place place = here(at);
        detail::open_when(truth.node(), place);
        {
            const detail::ScopeCloser closer;
            body();
        }
        return WarpOtherwise(truth);
    }

private:
    /// The writer's line, if this kernel is the one being recorded.
    Place here(std::source_location at) const {
        const Place place(at);
        detail::require_recording(recording_, place);
        return place;
    }

    template <Element T, int R>
    Global<T, R> tensor(ir::Role role, const char* name, const Extent (&extents)[R], const TensorOptions& options,
                        const Place& place) {
        static_assert(R <= Shape::max_rank, "tessera: a tensor has at most 8 axes");
        detail::AxisSpec axes[R];
        for (int i = 0; i < R; ++i) {
            const AxisStride& s = options.strides[i];
            axes[i] = {extents[i].node, s.node, s.inner, s.inner_stride};
        }
        detail::ViewSpec base;
        base.memory = detail::tensor(name, T, role, axes, R, options.align, place);
        base.rank = R;
        base.recording = recording_;
        return Global<T, R>(base);
    }

    std::uint64_t recording_;
};

namespace detail {
Program record(const char* name, FunctionRef<Kernel&> body, const Place& place);
}

/// Records a kernel: runs `body` once on a recorder. `name` becomes the CUDA function's name (a C identifier).
/// Errors: UsageError on the writer's line.
template <class Body>
Program record(const char* name, Body&& body, std::source_location at = std::source_location::current()) {
    return detail::record(name, detail::FunctionRef<Kernel&>(body), at);
}

}  // namespace tessera
