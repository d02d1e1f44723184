#pragma once

#include "dsl/front/value.hpp"

// Tensors and shared tiles as a kernel sees them, and moving pieces of them to and from registers.

namespace tessera {

/// An extent, an offset or a stride: a number, or an Index known at launch.
struct Extent {
    detail::Ref node;
    Extent(std::integral auto n, std::source_location at = std::source_location::current())
        : node(detail::number<i64>(n, Place(at))) {}
    Extent(const Index& n, std::source_location at = std::source_location::current()) : node(n.node(at)) {}
};

/// Where a window starts along an axis; or a tile of indices, one for each position of the window: a load gathers and a
/// store scatters. Indices outside the tensor or shared tile are masked, negative ones too. Of an element of a tensor
/// that is scattered to twice, which value stays is open; in a shared tile it is an error.
struct Offset {
    detail::Ref node;
    Offset(std::integral auto n, std::source_location at = std::source_location::current())
        : node(detail::number<i64>(n, Place(at))) {}
    Offset(const Index& n, std::source_location at = std::source_location::current()) : node(n.node(at)) {}
    Offset(const Value<i32, 1>& indices, std::source_location at = std::source_location::current())
        : node(indices.node(at)) {}
    Offset(const Value<i64, 1>& indices, std::source_location at = std::source_location::current())
        : node(indices.node(at)) {}
};

/// A piece of a tensor or shared tile; R is its rank without the picked axes.
template <Element T, int R>
class Piece {
public:
    explicit Piece(const detail::ViewSpec& spec) : spec_(spec) {}
    const detail::ViewSpec& spec() const { return spec_; }

private:
    detail::ViewSpec spec_;
};

namespace detail {

/// What Global and Shared have in common: picking along the first axes and cutting pieces out of the rest.
template <Element T, int R>
class Addressable {
public:
    explicit Addressable(const ViewSpec& base) : base_(base) {}

    /// The tile of these extents at these tile coordinates: it starts at at[i] · extents[i].
    template <int N, int M>
    Piece<T, R> block(const std::int64_t (&extents)[N], const Extent (&at)[M],
                      std::source_location where = std::source_location::current()) const {
        static_assert(N == R && M == R, "tessera: block needs one extent and one tile coordinate for each axis");
        const Place place(where);
        Ref offsets[R];
        for (int i = 0; i < R; ++i)
            offsets[i] = binary(ir::BinaryOp::mul, at[i].node, constant(i64, extents[i], place), place);
        return piece(extents, offsets);
    }
    /// The tile of these extents whose first element is at these offsets.
    template <int N, int M>
    Piece<T, R> window(const std::int64_t (&extents)[N], const Offset (&at)[M]) const {
        static_assert(N == R && M == R, "tessera: window needs one extent and one offset for each axis");
        Ref offsets[R];
        for (int i = 0; i < R; ++i) offsets[i] = at[i].node;
        return piece(extents, offsets);
    }

protected:
    const ViewSpec& base() const { return base_; }
    /// The next axis picked at i.
    ViewSpec pick(const Extent& i) const {
        ViewSpec next = base_;
        const int first = base_.rank - R;
        next.offset[first] = i.node;
        next.extent[first] = 1;
        next.picked[first] = true;
        return next;
    }

private:
    Piece<T, R> piece(const std::int64_t* extents, const Ref* offsets) const {
        ViewSpec spec = base_;
        for (int i = 0, axis = base_.rank - R; i < R; ++i, ++axis) {
            spec.offset[axis] = offsets[i];
            spec.extent[axis] = extents[i];
        }
        return Piece<T, R>(spec);
    }
    ViewSpec base_;
};

}  // namespace detail

/// A tensor parameter.
template <Element T, int R>
class Global : public detail::Addressable<T, R> {
public:
    using detail::Addressable<T, R>::Addressable;
    /// Picks along the first axis and drops it.
    Global<T, R - 1> operator[](const Extent& i) const
        requires(R > 1)
    {
        return Global<T, R - 1>(this->pick(i));
    }
    /// One element; loaded, it is a number that all threads of the block have.
    Piece<T, 0> operator[](const Extent& i) const
        requires(R == 1)
    {
        return Piece<T, 0>(this->pick(i));
    }
};

/// XOR swizzle of a shared tile's element offsets: bits [shift, shift + bits) of (offset >> base) are XORed into its
/// bits [0, bits). Runs of 2^base elements stay together.
struct SwizzleOptions {
    int bits = 0, base = 0, shift = 0;
};

/// A tile in the block's shared memory. Barriers between writers and readers are placed by the lowering.
template <Element T, int R>
class Shared : public detail::Addressable<T, R> {
public:
    Shared(const detail::ViewSpec& base, const Shape& shape) : detail::Addressable<T, R>(base), shape_(shape) {}
    /// Picks along the first axis and drops it.
    Shared<T, R - 1> operator[](const Extent& i) const
        requires(R > 1)
    {
        return Shared<T, R - 1>(this->pick(i), shape_);
    }
    /// One element; loaded, it is a number that all threads of the block have.
    Piece<T, 0> operator[](const Extent& i) const
        requires(R == 1)
    {
        return Piece<T, 0>(this->pick(i));
    }
    /// All of it, or of what has been picked.
    Piece<T, R> whole(std::source_location at = std::source_location::current()) const {
        const detail::Ref zero = detail::constant(i64, std::int64_t{0}, at);
        detail::ViewSpec spec = this->base();
        for (int axis = spec.rank - R; axis < spec.rank; ++axis) {
            spec.offset[axis] = zero;
            spec.extent[axis] = shape_[axis];
        }
        return Piece<T, R>(spec);
    }

private:
    Shape shape_;  // of the tile, picked axes included
};

/// What a cache may count on: `streaming` is for what the kernel does not come back to, so that other data may stay;
/// `kept`, of loads alone, for what it soon loads once more, and last, `streaming`: until then it stays in the L2
/// cache, which is to have room for all of it.
using ir::Cache;

/// How a loaded tile lies over the threads, unless it is an operand of a product (mma), which lies as that needs it:
/// each holds `per_thread` elements side by side along each axis, and threads neighbour along the contiguous axis
/// first. Left out, the lowering's own rule decides. lanes: at most so many threads lie along the contiguous axis, a
/// power of two; 32 gives every row to one warp. 0: as many as fit.
struct LoadOptions {
    Shape per_thread = {};
    int lanes = 0;
    Cache cache = Cache::normal;
};

/// How a tile is stored.
struct StoreOptions {
    Cache cache = Cache::normal;
};

/// Reads a piece into registers, now. What lies outside the tensor reads as `fill`.
template <Element T, int R>
Value<T, R> load(const Piece<T, R>& piece, const LoadOptions& options = {},
                 std::source_location at = std::source_location::current()) {
    return Value<T, R>(detail::load(piece.spec(), nullptr, options.per_thread, at, options.lanes, options.cache));
}
template <Element T, int R>
Value<T, R> load(const Piece<T, R>& piece, std::type_identity_t<Value<T, 0>> fill, const LoadOptions& options = {},
                 std::source_location at = std::source_location::current()) {
    return Value<T, R>(detail::load(piece.spec(), fill.node(at), options.per_thread, at, options.lanes, options.cache));
}

/// Writes a tile; what lies outside the tensor is not written.
template <Element T, int R>
void store(const Piece<T, R>& piece, const Value<T, R>& value, const StoreOptions& options = {},
           std::source_location at = std::source_location::current()) {
    detail::store(piece.spec(), value.node(at), at, options.cache);
}
template <Element T, int R, Element U, int S>
    requires(T != U || R != S)
void store(const Piece<T, R>&, const Value<U, S>&, const StoreOptions& = {}) {
    static_assert(
        T == U,
        "tessera: store's value has another element type than the memory; cast it: store(piece, cast<bf16>(v))");
    static_assert(T != U || R == S,
                  "tessera: store's value has another rank than the piece; use split, merge, squeeze or unsqueeze");
}

/// piece += value, element by element; no addition of another thread or block is lost. What lies outside the tensor or
/// shared tile is not touched. Whole numbers of 32 or 64 bits only: their sum does not depend on the order in which
/// threads come.
template <Element T, int R>
void atomic_add(const Piece<T, R>& piece, const Value<T, R>& value,
                std::source_location at = std::source_location::current()) {
    static_assert(is_integer(T) && bits_of(T) >= 32,
                  "tessera: atomic_add is for integers of 32 or 64 bits; a sum of floats would depend on the order in "
                  "which blocks come: store partial sums and add them in a second kernel");
    detail::atomic_add(piece.spec(), value.node(at), at);
}

/// How a copy is shared by the threads: each copies `per_thread` elements at once, the product of 4, 8 or 16 bytes, and
/// threads neighbour along the contiguous axis first. A thread that loads later, by the same per_thread and extents,
/// what it has copied itself needs no barrier. Left out: vectors as long as alignment allows.
struct CopyOptions {
    Shape per_thread = {};
};

/// Starts to copy a piece of an input or inout tensor to a piece of a shared tile, past the registers; what lies
/// outside the tensor becomes zeros. Under way until wait_copies(): before, the tile may not be touched, nor what is
/// copied be written to. Rows of the piece must move in vectors of at least 4 bytes.
template <Element T, int R>
void copy_async(const Piece<T, R>& to, const Piece<T, R>& from, const CopyOptions& options = {},
                std::source_location at = std::source_location::current()) {
    detail::copy_async(to.spec(), from.spec(), options.per_thread, at);
}
/// Waits for all copies that have been started.
inline void wait_copies(std::source_location at = std::source_location::current()) { detail::wait_copies(at); }

/// State across iterations: get() reads it now, = writes it.
template <Element T, int R>
class Variable {
public:
    explicit Variable(int id) : id_(id), recording_(detail::recording_now()) {}
    Variable(const Variable&) = delete;

    Value<T, R> get(std::source_location at = std::source_location::current()) const {
        detail::require_recording(recording_, at);
        return Value<T, R>(detail::variable_read(id_, at));
    }
    void operator=(const detail::Rhs<T, R>& value) {
        detail::require_recording(recording_, value.place);
        detail::assign(id_, value.node, value.place);
    }
    void operator=(const Variable&) = delete;

private:
    int id_;
    std::uint64_t recording_;
};

}  // namespace tessera
