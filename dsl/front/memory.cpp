#include "dsl/front/memory.hpp"

#include <fmt/format.h>

#include "dsl/base/error.hpp"
#include "dsl/front/recorder.hpp"

// Parameters, shared tiles, variables, and moving pieces of memory.

namespace tessera::detail {

namespace {

const char* memory_name(const ir::Program& p, const ViewSpec& v) {
    const auto i = static_cast<std::size_t>(v.memory);
    return v.space == ir::Space::global ? p.tensors[i].name.c_str() : p.shared[i].name.c_str();
}

void require_indices(Recorder& r, const ViewSpec& spec, int axis, const Place& place) {
    if (spec.space == ir::Space::shared)
        throw UsageError(place, fmt::format("a tile of indices along axis {} of the shared tile {}: only tensors are "
                                            "gathered from; load the tile and select",
                                            axis, memory_name(r.program(), spec)));
    if (spec.offset[axis]->shape[0] != spec.extent[axis])
        throw UsageError(
            place, fmt::format("{} indices for a window of extent {} along axis {} of {}: there is one "
                               "index for each position",
                               spec.offset[axis]->shape[0], spec.extent[axis], axis, memory_name(r.program(), spec)));
}

/// The view's node form; checks extents and, where both are numbers, that the piece begins inside.
ir::View view_of(Recorder& r, const ViewSpec& spec, const Place& place, Shape& tile) {
    ir::View view{spec.space, spec.memory, {}};
    for (int i = 0; i < spec.rank; ++i) {
        r.require_open(spec.offset[i], place);
        if (spec.extent[i] < 1)
            throw UsageError(place, fmt::format("a piece of {} with extent {} along axis {}: extents are at least 1",
                                                memory_name(r.program(), spec), spec.extent[i], i));
        if (!spec.offset[i]->scalar()) require_indices(r, spec, i, place);
        if (spec.space == ir::Space::shared) {
            const Shape& shape = r.program().shared[static_cast<std::size_t>(spec.memory)].shape;
            const auto* offset = spec.offset[i]->as<ir::Constant>();
            const std::int64_t at = offset ? static_cast<std::int64_t>(offset->bits) : 0;
            if (at < 0 || at + spec.extent[i] > shape[i])
                throw UsageError(
                    place, fmt::format("a piece [{}, {}) along axis {} of the shared tile {} {} runs past its end", at,
                                       at + spec.extent[i], i, memory_name(r.program(), spec), text_of(shape)));
        }
        view.axes.push_back({spec.offset[i], spec.extent[i], spec.picked[i]});
        if (!spec.picked[i]) tile.push_back(spec.extent[i]);
    }
    return view;
}

}  // namespace

Ref load(const ViewSpec& spec, Ref fill, const PerThread& per_thread, const Place& place) {
    Recorder& r = Recorder::active(place);
    Shape tile;
    ir::View view = view_of(r, spec, place, tile);
    const bool global = spec.space == ir::Space::global;
    if (global && r.program().tensors[static_cast<std::size_t>(spec.memory)].role == ir::Role::output)
        throw UsageError(place, fmt::format("load from {}, which is an output; declare it with k.inout to read it",
                                            memory_name(r.program(), spec)));
    const Element type = global ? r.program().tensors[static_cast<std::size_t>(spec.memory)].type
                                : r.program().shared[static_cast<std::size_t>(spec.memory)].type;
    if (!fill) fill = is_float(type) ? constant(type, 0.0, place) : constant(type, std::int64_t{0}, place);
    if (per_thread.rank() != 0 && per_thread.rank() != tile.rank())
        throw UsageError(place, fmt::format("per_thread {} for a tile {}: one number for each axis",
                                            text_of(per_thread), text_of(tile)));
    for (int i = 0; i < per_thread.rank(); ++i)
        if (per_thread[i] < 1 || tile[i] % per_thread[i] != 0)
            throw UsageError(
                place, fmt::format("per_thread {} does not divide the tile {}", text_of(per_thread), text_of(tile)));
    return r.bind(type, tile, place, ir::Load{std::move(view), fill, per_thread});
}

void store(const ViewSpec& spec, Ref value, const Place& place) {
    Recorder& r = Recorder::active(place);
    r.require_open(value, place);
    Shape tile;
    ir::View view = view_of(r, spec, place, tile);
    if (spec.space == ir::Space::global &&
        r.program().tensors[static_cast<std::size_t>(spec.memory)].role == ir::Role::input)
        throw UsageError(place, fmt::format("store to {}, which is an input; declare it with k.output or k.inout",
                                            memory_name(r.program(), spec)));
    if (!(tile == value->shape))
        throw UsageError(place, fmt::format("store of a tile {} to a piece {} of {}: the extents must be equal",
                                            text_of(value->shape), text_of(tile), memory_name(r.program(), spec)));
    r.append(place, ir::Store{std::move(view), value});
}

void atomic_add(const ViewSpec& spec, Ref value, const Place& place) {
    Recorder& r = Recorder::active(place);
    r.require_open(value, place);
    Shape tile;
    ir::View view = view_of(r, spec, place, tile);
    if (spec.space == ir::Space::shared)
        throw UsageError(place, fmt::format("atomic_add to the shared tile {}: atomics are for tensors; inside a block "
                                            "sum with reduce_sum",
                                            memory_name(r.program(), spec)));
    if (r.program().tensors[static_cast<std::size_t>(spec.memory)].role != ir::Role::inout)
        throw UsageError(place, fmt::format("atomic_add to {}, which is no inout tensor; declare it with k.inout: what "
                                            "it holds is added to",
                                            memory_name(r.program(), spec)));
    if (!(tile == value->shape))
        throw UsageError(place, fmt::format("atomic_add of a tile {} to a piece {} of {}: the extents must be equal",
                                            text_of(value->shape), text_of(tile), memory_name(r.program(), spec)));
    r.append(place, ir::Accumulate{std::move(view), value});
}

int tensor(const char* name, Element type, ir::Role role, const AxisSpec* axes, int rank, int align,
           const Place& place) {
    Recorder& r = Recorder::active(place);
    r.require_new_name(name, "a tensor", place);
    const int element = (bits_of(type) + 7) / 8;
    if (align < element || (align & (align - 1)) != 0 || align > 256)
        throw UsageError(place, fmt::format("tensor {}: align {} is not a power of two from {} (the element) to 256",
                                            name, align, element));
    ir::TensorParam t{name, type, role, {}, align, place};
    Ref dense = constant(i64, std::int64_t{1}, place);
    t.axes.resize(static_cast<std::size_t>(rank));
    for (int i = rank - 1; i >= 0; --i) {
        const AxisSpec& a = axes[i];
        t.axes[static_cast<std::size_t>(i)] = {a.extent, a.stride ? a.stride : dense, a.inner, a.inner_stride};
        if (i == rank - 1)
            dense = a.extent;
        else if (i > 0)
            dense = binary(ir::BinaryOp::mul, dense, a.extent, place);
    }
    r.program().tensors.push_back(std::move(t));
    return static_cast<int>(r.program().tensors.size()) - 1;
}

Ref scalar(const char* name, Element type, std::int64_t multiple_of, const Place& place) {
    Recorder& r = Recorder::active(place);
    r.require_new_name(name, "a number", place);
    if (multiple_of < 1)
        throw UsageError(place, fmt::format("{}: multiple_of({}) must be at least 1", name, multiple_of));
    r.program().scalars.push_back({name, type, multiple_of, place});
    return r.make(type, {}, place, ir::Parameter{static_cast<int>(r.program().scalars.size()) - 1});
}

int shared_tile(const char* name, Element type, const Shape& shape, int bits, int base, int shift, const Place& place) {
    Recorder& r = Recorder::active(place);
    r.require_new_name(name, "a shared tile", place);
    for (std::int64_t e : shape)
        if (e < 1)
            throw UsageError(place, fmt::format("shared tile {} {}: extents are at least 1", name, text_of(shape)));
    if (bits < 0 || base < 0 || (bits > 0 && shift < bits) || bits + base + shift > 40)
        throw UsageError(
            place, fmt::format(
                       "shared tile {}: a swizzle of {} bits needs shift >= bits, so that what is XORed stays as it is",
                       name, bits));
    if (bits > 0 && shape.count() % (std::int64_t{1} << (bits + base)) != 0)
        throw UsageError(place, fmt::format("shared tile {} {}: the swizzle's span of {} elements must divide the tile",
                                            name, text_of(shape), std::int64_t{1} << (bits + base)));
    r.program().shared.push_back({name, type, shape, {bits, base, shift}, place});
    return static_cast<int>(r.program().shared.size()) - 1;
}

int variable(Ref init, const Place& place) {
    Recorder& r = Recorder::active(place);
    r.require_open(init, place);
    const int id = static_cast<int>(r.program().variables.size());
    r.program().variables.push_back({fmt::format("s{}", id), init->type, init->shape, place});
    r.append(place, ir::Assign{id, init});
    return id;
}

Ref variable_read(int variable, const Place& place) {
    Recorder& r = Recorder::active(place);
    const ir::Variable& v = r.program().variables[static_cast<std::size_t>(variable)];
    return r.bind(v.type, v.shape, place, ir::VariableRead{variable});
}

void assign(int variable, Ref value, const Place& place) {
    Recorder& r = Recorder::active(place);
    r.require_open(value, place);
    const ir::Variable v = r.program().variables[static_cast<std::size_t>(variable)];
    if (value->scalar() && !v.shape.empty()) value = broadcast_to(value, v.shape, place);
    if (!(value->shape == v.shape))
        throw UsageError(place, fmt::format("a tile {} is assigned to a variable {}: the extents must be equal",
                                            text_of(value->shape), text_of(v.shape)));
    r.append(place, ir::Assign{variable, value});
}

void set_threads(int threads, const Place& place) {
    if (threads < 32 || threads > 1024 || (threads & (threads - 1)) != 0)
        throw UsageError(place, fmt::format("{} threads: a block has a power of two from 32 to 1024", threads));
    Recorder::active(place).program().threads = threads;
}

void grid(const Ref* extents, int rank, Ref* indices, const Place& place) {
    Recorder& r = Recorder::active(place);
    if (r.grid_set) throw UsageError(place, "the grid is set twice; k.grid is called once");
    r.grid_set = true;
    for (int i = 0; i < rank; ++i) {
        r.require_open(extents[i], place);
        r.program().grid.push_back(extents[i]);
        indices[i] = r.make(i64, {}, place, ir::BlockIndex{i});
    }
}

}  // namespace tessera::detail
