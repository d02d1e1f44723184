#include "dsl/front/memory.hpp"

#include <fmt/format.h>

#include "dsl/base/error.hpp"
#include "dsl/front/recorder.hpp"
#include "dsl/ir/kernel_ahead.hpp"
#include "dsl/ir/report.hpp"

// Parameters, shared tiles, variables, and moving pieces of memory.

namespace tessera::detail {

namespace {

/// UsageError unless the memory was declared in this recording.
void require_memory(const ir::Program& p, const ViewSpec& v, const Place& place) {
    if (v.recording) require_recording(v.recording, place);
    const auto i = static_cast<std::size_t>(v.memory);
    const bool global = v.space == ir::Space::global;
    const bool known = i < (global ? p.tensors.size() : p.shared.size()) &&
                       static_cast<std::size_t>(v.rank) ==
                           (global ? p.tensors[i].axes.size() : static_cast<std::size_t>(p.shared[i].shape.rank()));
    if (!known) throw UsageError(place, "a tensor or shared tile is used that this recording has not declared");
}

const char* memory_name(const ir::Program& p, const ViewSpec& v) {
    const auto i = static_cast<std::size_t>(v.memory);
    return v.space == ir::Space::global ? p.tensors[i].name.c_str() : p.shared[i].name.c_str();
}

void require_indices(Recorder& r, const ViewSpec& spec, int axis, const Place& place) {
    if (spec.offset[axis]->shape[0] != spec.extent[axis])
        throw UsageError(
            place, fmt::format("{} indices for a window of extent {} along axis {} of {}: there is one "
                               "index for each position",
                               spec.offset[axis]->shape[0], spec.extent[axis], axis, memory_name(r.program(), spec)));
}

/// The view's node form; checks extents and, where both are numbers, that the piece begins inside.
ir::View view_of(Recorder& r, const ViewSpec& spec, const Place& place, Shape& tile) {
    require_memory(r.program(), spec, place);
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
            const bool by_index = !spec.offset[i]->scalar();
            if (!by_index && (at < 0 || spec.extent[i] > shape[i] || at > shape[i] - spec.extent[i]))
                throw UsageError(
                    place,
                    fmt::format("a piece of extent {} at {} along axis {} of the shared tile {} {} runs past its end",
                                spec.extent[i], at, i, memory_name(r.program(), spec), text_of(shape)));
        }
        view.axes.push_back({spec.offset[i], spec.extent[i], spec.picked[i]});
        if (!spec.picked[i]) tile.push_back(spec.extent[i]);
    }
    return view;
}

void require_per_thread(const PerThread& per_thread, const Shape& tile, const Place& place) {
    if (per_thread.rank() != 0 && per_thread.rank() != tile.rank())
        throw UsageError(place, fmt::format("per_thread {} for a tile {}: one number for each axis",
                                            text_of(per_thread), text_of(tile)));
    for (int i = 0; i < per_thread.rank(); ++i)
        if (per_thread[i] < 1 || tile[i] % per_thread[i] != 0)
            throw UsageError(
                place, fmt::format("per_thread {} does not divide the tile {}", text_of(per_thread), text_of(tile)));
}

}  // namespace

namespace {

void require_cache(Recorder& r, const ViewSpec& spec, ir::Cache cache, const Place& place) {
    if (cache != ir::Cache::normal && spec.space == ir::Space::shared)
        throw UsageError(place,
                         fmt::format("{} access to the shared tile {}: what is said about caches is for "
                                     "tensors; leave it out",
                                     cache == ir::Cache::kept ? "kept" : "streaming", memory_name(r.program(), spec)));
}

}  // namespace

Ref load(const ViewSpec& spec, Ref fill, const PerThread& per_thread, const Place& place, int lanes, ir::Cache cache) {
    Recorder& r = Recorder::active(place);
    Shape tile;
    ir::View view = view_of(r, spec, place, tile);
    require_cache(r, spec, cache, place);
    const bool global = spec.space == ir::Space::global;
    if (global && r.program().tensors[static_cast<std::size_t>(spec.memory)].role == ir::Role::output)
        throw UsageError(place, fmt::format("load from {}, which is an output; declare it with k.inout to read it",
                                            memory_name(r.program(), spec)));
    const Element type = global ? r.program().tensors[static_cast<std::size_t>(spec.memory)].type
                                : r.program().shared[static_cast<std::size_t>(spec.memory)].type;
    if (!fill) fill = r.make(type, {}, place, ir::Constant{0});
    r.require_open(fill, place);
    require_per_thread(per_thread, tile, place);
    if (lanes < 0 || (lanes & (lanes - 1)) != 0)
        throw UsageError(place, fmt::format("a load over {} lanes: the threads of a row are a power of two", lanes));
    if (lanes > 0 && per_thread.rank() == 0)
        throw UsageError(place,
                         fmt::format("a load over {} lanes without per_thread; say how many elements of each axis "
                                     "a thread holds side by side",
                                     lanes));
    return r.bind(type, tile, place, ir::Load{std::move(view), fill, per_thread, lanes, cache});
}

void store(const ViewSpec& spec, Ref value, const Place& place, ir::Cache cache) {
    Recorder& r = Recorder::active(place);
    r.require_open(value, place);
    Shape tile;
    ir::View view = view_of(r, spec, place, tile);
    require_cache(r, spec, cache, place);
    if (cache == ir::Cache::kept)
        throw UsageError(place, fmt::format("a store to {} that is to be kept: that is for loads; leave it out",
                                            memory_name(r.program(), spec)));
    if (spec.space == ir::Space::global &&
        r.program().tensors[static_cast<std::size_t>(spec.memory)].role == ir::Role::input)
        throw UsageError(place, fmt::format("store to {}, which is an input; declare it with k.output or k.inout",
                                            memory_name(r.program(), spec)));
    if (!(tile == value->shape))
        throw UsageError(place, fmt::format("store of a tile {} to a piece {} of {}: the extents must be equal",
                                            text_of(value->shape), text_of(tile), memory_name(r.program(), spec)));
    r.append(place, ir::Store{std::move(view), value, cache});
}

namespace {

void require_axis(const Recorder& r, const char* name, int axis, const AxisSpec& a, const Place& place) {
    r.require_launch_number(a.extent, fmt::format("the extent of tensor {} along axis {}", name, axis), place);
    if (a.stride)
        r.require_launch_number(a.stride, fmt::format("the stride of tensor {} along axis {}", name, axis), place);
    if (const auto* c = a.extent->as<ir::Constant>(); c && static_cast<std::int64_t>(c->bits) < 0)
        throw UsageError(place, fmt::format("tensor {} has extent {} along axis {}; extents are at least 0", name,
                                            static_cast<std::int64_t>(c->bits), axis));
    if (a.inner < 1)
        throw UsageError(place, fmt::format("tensor {}: axis {} is packed({}, …); at least 1 element makes a word",
                                            name, axis, a.inner));
}

}  // namespace

void copy_async(const ViewSpec& to, const ViewSpec& from, const PerThread& per_thread, const Place& place) {
    Recorder& r = Recorder::active(place);
    Shape there, here;
    ir::View source = view_of(r, from, place, there), tile = view_of(r, to, place, here);
    if (to.space != ir::Space::shared || from.space != ir::Space::global)
        throw UsageError(place, fmt::format("copy_async from {} to {}: a copy goes from a tensor to a shared tile",
                                            memory_name(r.program(), from), memory_name(r.program(), to)));
    if (r.program().tensors[static_cast<std::size_t>(from.memory)].role == ir::Role::output)
        throw UsageError(place, fmt::format("copy_async from {}, which is an output and holds nothing yet; declare it "
                                            "with k.inout",
                                            memory_name(r.program(), from)));
    if (!(there == here))
        throw UsageError(place, fmt::format("copy_async of a piece {} of {} to a piece {} of {}: the extents must be "
                                            "equal",
                                            text_of(there), memory_name(r.program(), from), text_of(here),
                                            memory_name(r.program(), to)));
    require_per_thread(per_thread, here, place);
    r.append_copy(place, {std::move(source), std::move(tile), per_thread});
}

void grid_sync(const Place& place) {
    Recorder& r = Recorder::active(place);
    if (r.in_loop())
        throw UsageError(place,
                         "grid_sync in a loop or a condition: blocks meet at the top level of a kernel only; move it "
                         "out, or make two kernels of it");
    if (r.program().dependent_launch)
        throw UsageError(place,
                         "grid_sync in a kernel with k.dependent_launch(): a kernel whose blocks wait for each "
                         "other starts with all of them at once, not early");
    r.program().cooperative = true;
    r.append(place, ir::GridSync{});
}

void wait_copies(const Place& place) { Recorder::active(place).append(place, ir::WaitCopies{}); }

void atomic_add(const ViewSpec& spec, Ref value, const Place& place) {
    Recorder& r = Recorder::active(place);
    r.require_open(value, place);
    Shape tile;
    ir::View view = view_of(r, spec, place, tile);
    if (spec.space == ir::Space::global &&
        r.program().tensors[static_cast<std::size_t>(spec.memory)].role != ir::Role::inout)
        throw UsageError(place, fmt::format("atomic_add to {}, which is no inout tensor; declare it with k.inout: what "
                                            "it holds is added to",
                                            memory_name(r.program(), spec)));
    if (!(tile == value->shape))
        throw UsageError(place, fmt::format("atomic_add of a tile {} to a piece {} of {}: the extents must be equal",
                                            text_of(value->shape), text_of(tile), memory_name(r.program(), spec)));
    r.append(place, ir::Accumulate{std::move(view), value});
}

namespace {

/// The value's code, in 64 bits.
Ref code_of(Ref value, const Place& place) {
    constexpr Element words[] = {u8, u16, u32, u64};
    const Element type = value->type;
    if (is_float(type)) {
        const int bits = bits_of(type);
        if (bits < 8 || bits == 12)
            throw UsageError(place, fmt::format("a report's value is {}, which has no byte of its own; cast it: "
                                                "cast<f32>(v)",
                                                name_of(type)));
        value = bitcast(words[bits == 8 ? 0 : bits == 16 ? 1 : bits == 32 ? 2 : 3], value, place);
    }
    if (value->type == u64) return bitcast(i64, value, place);
    return value->type == i64 ? value : cast(i64, value, place);
}

}  // namespace

void report(Ref bad, const char* rule, const ViewSpec& spec, Ref value, const Place& place) {
    Recorder& r = Recorder::active(place);
    r.require_open(bad, place);
    if (value) r.require_open(value, place);
    Shape tile;
    ir::View view = view_of(r, spec, place, tile);
    if (!rule || !*rule)
        throw UsageError(place, "a report without a rule; say what must hold: \"a position is a row of out\"");
    if (spec.space == ir::Space::shared || spec.rank > 2)
        throw UsageError(place, fmt::format("a report on {}, which is {}; what is reported lies in a tensor of rank 1 "
                                            "or 2",
                                            memory_name(r.program(), spec),
                                            spec.space == ir::Space::shared ? "a shared tile"
                                                                            : fmt::format("of rank {}", spec.rank)));
    if (!(tile == bad->shape) || (value && !value->scalar() && !(tile == value->shape)))
        throw UsageError(place, fmt::format("a report on a piece {} of {} by a mask {}{}: the extents must be equal",
                                            text_of(tile), memory_name(r.program(), spec), text_of(bad->shape),
                                            value ? " and a value " + text_of(value->shape) : ""));
    if (r.program().rules.size() == ir::most_rules)
        throw UsageError(place, fmt::format("more than {} reports in a kernel", ir::most_rules));
    const Element shown = value ? value->type : i64;
    const Ref code = value ? code_of(value, place) : constant(i64, std::int64_t{0}, place);
    r.program().rules.push_back({rule, spec.memory, value != nullptr, shown, place});
    r.append(place, ir::Report{static_cast<int>(r.program().rules.size()) - 1, std::move(view), bad, code});
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
    for (int i = 0; i < rank; ++i) require_axis(r, name, i, axes[i], place);
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
    require_tile(shape, place);
    if (bits < 0 || base < 0 || shift < 0 || bits > 30 || base > 30 || shift > 30 || bits + base + shift > 30)
        throw UsageError(place, fmt::format("shared tile {}: the swizzle (bits {}, base {}, shift {}) is out of range; "
                                            "its numbers are at least 0 and their sum at most 30",
                                            name, bits, base, shift));
    if (bits > 0 && shift < bits)
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
    r.add_variable({fmt::format("s{}", id), init->type, init->shape, place});
    r.append(place, ir::Assign{id, init});
    return id;
}

Ref variable_read(int variable, const Place& place) {
    Recorder& r = Recorder::active(place);
    const ir::Variable& v = r.open_variable(variable, place);
    return r.bind(v.type, v.shape, place, ir::VariableRead{variable});
}

void assign(int variable, Ref value, const Place& place) {
    Recorder& r = Recorder::active(place);
    r.require_open(value, place);
    const ir::Variable v = r.open_variable(variable, place);
    if (value->scalar() && !v.shape.empty()) value = broadcast_to(value, v.shape, place);
    if (!(value->shape == v.shape))
        throw UsageError(place, fmt::format("a tile {} is assigned to a variable {}: the extents must be equal",
                                            text_of(value->shape), text_of(v.shape)));
    r.append(place, ir::Assign{variable, value});
}

void set_threads(int threads, int least_blocks, const Place& place) {
    if (threads < 32 || threads > 1024 || threads % 32 != 0)
        throw UsageError(place,
                         fmt::format("{} threads: a block has whole warps, a multiple of 32 from 32 to 1024", threads));
    if (least_blocks < 0 || least_blocks > 32)
        throw UsageError(place, fmt::format("{} blocks of a multiprocessor; it holds from 1 to 32", least_blocks));
    Recorder& r = Recorder::active(place);
    if (!r.program().roles.empty())
        throw UsageError(place,
                         "k.threads after k.roles, whose warps make up the block; leave it out, or call it ahead of "
                         "them with as many threads");
    if (r.threads_set != 0 && r.threads_set != threads)
        throw UsageError(place, fmt::format("k.threads({}) after k.threads({}); a kernel has one number of threads: "
                                            "call it once",
                                            threads, r.threads_set));
    r.threads_set = r.program().threads = threads;
    r.program().least_blocks = least_blocks;
}

void set_dependent_launch(const Place& place) {
    Recorder& r = Recorder::active(place);
    ir::Program& p = r.program();
    if (p.cooperative)
        throw UsageError(place,
                         "dependent_launch in a kernel with k.grid_sync(): a kernel whose blocks wait for each "
                         "other starts with all of them at once, not early");
    if (r.in_loop())
        throw UsageError(place,
                         "dependent_launch in a loop or a condition: a kernel waits once for the one ahead of it; move "
                         "it to the top level of the kernel");
    if (p.dependent_launch)
        throw UsageError(place, "dependent_launch twice: a kernel waits once for the one ahead of it; call it once");
    if (const ir::Statement* const early = ir::meets_kernel_ahead(p))
        throw UsageError(place,
                         fmt::format("dependent_launch behind what does more than load inputs ({}:{}), while the "
                                     "kernel ahead may still run; call it ahead of that line",
                                     early->place.file, early->place.line));
    p.dependent_launch = true;
    r.append(place, ir::KernelAheadWait{});
}

void grid(const Ref* extents, int rank, Ref* indices, const Place& place) {
    Recorder& r = Recorder::active(place);
    if (r.grid_set) throw UsageError(place, "the grid is set twice; k.grid is called once");
    if (r.in_loop()) throw UsageError(place, "k.grid is called inside a loop; call it once, ahead of all loops");
    r.grid_set = true;
    for (int i = 0; i < rank; ++i) {
        r.require_launch_number(extents[i], fmt::format("extent {} of the grid", i), place);
        if (const auto* c = extents[i]->as<ir::Constant>(); c && static_cast<std::int64_t>(c->bits) < 0)
            throw UsageError(place, fmt::format("the grid has extent {} along axis {}; extents are at least 0",
                                                static_cast<std::int64_t>(c->bits), i));
        r.program().grid.push_back(extents[i]);
        indices[i] = r.make(i64, {}, place, ir::BlockIndex{i});
    }
}

}  // namespace tessera::detail
