#include "dsl/front/recorder.hpp"

#include <algorithm>
#include <atomic>
#include <cctype>
#include <fmt/format.h>

#include "dsl/base/error.hpp"
#include "dsl/front/kernel.hpp"
#include "dsl/ir/diagnosis.hpp"
#include "dsl/ir/each_warp.hpp"
#include "dsl/ir/walk.hpp"

namespace tessera::detail {

namespace {
thread_local Recorder* current = nullptr;
std::atomic<std::uint64_t> recordings{0};

/// Far more than the threads of a block can hold, and small enough for 32-bit arithmetic on positions in a tile.
constexpr std::int64_t largest_tile = std::int64_t{1} << 30;
}  // namespace

std::uint64_t recording_now() noexcept { return current ? current->id() : 0; }

void require_recording(std::uint64_t recording, const Place& place) {
    if (recording != Recorder::active(place).id())
        throw UsageError(
            place,
            "something of another recording is used here; kernels, tensors, tiles and values belong to the "
            "record() that made them");
}

std::string text_of(const Shape& shape) {
    std::string text = "[";
    for (int i = 0; i < shape.rank(); ++i) text += fmt::format("{}{}", i ? ", " : "", shape[i]);
    return text + "]";
}

void require_tile(const Shape& shape, const Place& place) {
    std::int64_t count = 1;
    for (std::int64_t e : shape) {
        if (e < 1) throw UsageError(place, fmt::format("a tile of extents {}: extents are at least 1", text_of(shape)));
        if (e > largest_tile / count)
            throw UsageError(place, fmt::format("a tile of extents {} has more than 2^30 elements; take a smaller tile "
                                                "and more blocks or a loop",
                                                text_of(shape)));
        count *= e;
    }
}

Recorder::Recorder(const char* name, const Place& place)
    : id_(++recordings), program_(std::make_unique<ir::Program>()), outer_(current) {
    program_->name = require_new_name(name, "the kernel", place);
    program_->place = place;
    open({0, &program_->body});
    current = this;
}

Recorder::~Recorder() { current = outer_; }

Recorder& Recorder::active(const Place& place) {
    if (!current)
        throw UsageError(
            place, "a kernel operation outside record(); kernels are written in the function given to tessera::record");
    return *current;
}

ir::Program* Recorder::release() { return program_.release(); }

Ref Recorder::make(Element type, const Shape& shape, const Place& place, ir::Op op) {
    require_tile(shape, place);
    const bool everywhere = std::holds_alternative<ir::Constant>(op) || std::holds_alternative<ir::Parameter>(op);
    const Ref node = program_->arena->make(type, shape, place, std::move(op));
    scope_of_.push_back(everywhere ? 0 : open_.back().id);
    made_.push_back(node);
    int depth = 0;
    ir::for_each_operand(*node, [&](Ref operand) {
        if (const auto id = static_cast<std::size_t>(operand->id); id < depth_.size())
            depth = std::max(depth, depth_[id]);
    });
    depth_.push_back(depth + 1);
    return node;
}

void Recorder::append(const Place& place, ir::StatementOp op) {
    const bool starts_copies = std::holds_alternative<ir::Copy>(op) || std::holds_alternative<ir::Bind>(op) ||
                               std::holds_alternative<ir::For>(op);
    if (pipeline_ != nullptr && !starts_copies)
        throw UsageError(place, fmt::format("{} does more than start copies; it may compute, load and call copy_async, "
                                            "the rest belongs to the function that reads",
                                            pipeline_->function));
    open_.back().body->push_back({place, std::move(op)});
}

void Recorder::append_copy(const Place& place, ir::Copy copy) {
    if (pipeline_ != nullptr) {
        const ir::SharedTile& tile = program_->shared[static_cast<std::size_t>(copy.to.memory)];
        if (!copy.to.axes[0].picked || tile.shape[0] < pipeline_->stages)
            throw UsageError(
                place, fmt::format("a copy of a {} of {} stages goes to {} {}; its first axis must "
                                   "have an element for each stage, picked by the slot: {}[slot]",
                                   pipeline_->kind, pipeline_->stages, tile.name, text_of(tile.shape), tile.name));
        copy.mbarriers = pipeline_->mbarriers;
        if (copy.mbarriers >= 0) copy.stage = pipeline_->slot;
        copy.tensor = pipeline_->tensor;
    }
    append(place, std::move(copy));
}

int Recorder::mbarriers(const char* what, int stages, const Place& place) {
    unnamed_.push_back(program_->shared.size());
    program_->shared.push_back({what, u64, Shape{stages}, {}, place});
    return static_cast<int>(program_->shared.size()) - 1;
}

void Recorder::name_mbarriers() {
    for (std::size_t tile : unnamed_) {
        std::string& name = program_->shared[tile].name;
        const std::string what = name;
        for (int n = 2; std::find(names_.begin(), names_.end(), name) != names_.end(); ++n)
            name = fmt::format("{}_{}", what, n);
        names_.push_back(name);
    }
}

Ref Recorder::bind(Element type, const Shape& shape, const Place& place, ir::Op op) {
    const Ref node = make(type, shape, place, std::move(op));
    append(place, ir::Bind{node});
    depth_.back() = 0;
    return node;
}

Ref Recorder::make_index(Element type, const Place& place, ir::Op op) {
    constexpr int deepest = 50;
    const Ref node = make(type, {}, place, std::move(op));
    if (depth_.back() > deepest) {
        append(place, ir::Bind{node});
        depth_.back() = 0;
    }
    return node;
}

void Recorder::require_open(Ref value, const Place& place) const {
    const auto id = static_cast<std::size_t>(value->id);
    if (id >= made_.size() || made_[id] != value)
        throw UsageError(place,
                         "a value of another recording is used here; values belong to the record() that made them");
    if (!is_open(scope_of_[id]))
        throw UsageError(
            place,
            fmt::format(
                "a value made inside a loop or condition ({}:{}) is used after it ended; carry it out with k.variable",
                value->place.file, value->place.line));
    if (value->scalar() || team_of_scope_[static_cast<std::size_t>(scope_of_[id])] == open_.back().team) return;
    if (in_each_warp())
        throw UsageError(place, fmt::format("a tile made outside of k.each_warp ({}:{}) is used in it; it lies with "
                                            "all threads of the block, a warp's with its 32: load it again inside, or "
                                            "hand it over in a shared tile",
                                            value->place.file, value->place.line));
    throw UsageError(place, fmt::format("a tile made outside of the role ({}:{}) is used in it; a role's tiles lie "
                                        "with its own threads: load it again in the role",
                                        value->place.file, value->place.line));
}

void Recorder::open(const Scope& scope) {
    open_.push_back(scope);
    team_of_scope_.resize(std::max(team_of_scope_.size(), static_cast<std::size_t>(scope.id) + 1), 0);
    team_of_scope_[static_cast<std::size_t>(scope.id)] = scope.team;
}

/// A scope inside of the innermost one, for the body of the statement that was appended last.
void Recorder::open_inside(bool by_warps) {
    Scope scope = open_.back();
    scope.id = scopes_++;
    scope.body = &scope.body->back().as<ir::For>()->body;
    scope.by_warps = scope.by_warps || by_warps;
    open(scope);
}

bool Recorder::is_open(int scope) const {
    return std::any_of(open_.begin(), open_.end(), [&](const Scope& s) { return s.id == scope; });
}

void Recorder::require_launch_number(Ref value, const std::string& what, const Place& place) const {
    require_open(value, place);
    if (!ir::detail::known_at_launch(value))
        throw UsageError(place, what +
                                    " depends on data, a block index or a loop; it must be known at launch: a number, "
                                    "k.dim, k.scalar and arithmetic on them");
}

void Recorder::add_variable(ir::Variable variable) {
    program_->variables.push_back(std::move(variable));
    variable_scope_.push_back(open_.back().id);
}

const ir::Variable& Recorder::open_variable(int variable, const Place& place) const {
    const auto v = static_cast<std::size_t>(variable);
    if (v >= variable_scope_.size()) throw UsageError(place, "a variable of another recording is used here");
    const ir::Variable& found = program_->variables[v];
    if (!is_open(variable_scope_[v]))
        throw UsageError(place, fmt::format("a variable made inside a loop ({}:{}) is used after the loop ended; make "
                                            "it ahead of the loop",
                                            found.place.file, found.place.line));
    return found;
}

std::string Recorder::require_new_name(const char* given, const char* what, const Place& place) {
    if (!given) throw UsageError(place, fmt::format("a null pointer names {}; names are C identifiers", what));
    const std::string name = given;
    const bool identifier =
        !name.empty() && !std::isdigit(static_cast<unsigned char>(name[0])) &&
        std::all_of(name.begin(), name.end(), [](unsigned char c) { return std::isalnum(c) || c == '_'; });
    if (!identifier) throw UsageError(place, fmt::format("\"{}\" names {}; names are C identifiers", name, what));
    if (std::find(names_.begin(), names_.end(), name) != names_.end())
        throw UsageError(place,
                         fmt::format("\"{}\" names {} but already names something else in this kernel", name, what));
    names_.push_back(name);
    return name;
}

Ref Recorder::open_serial(Ref begin, Ref end, Ref step, const Place& place) {
    for (Ref bound : {begin, end, step}) require_open(bound, place);
    const int loop = program_->loops++;
    const std::string name = fmt::format("i{}", loop);
    append(place, ir::For{loop, name, begin, end, step, false, {}});
    open_inside();
    return make(i64, {}, place, ir::LoopIndex{loop});
}

void Recorder::open_when(Ref condition, const Place& place) {
    require_open(condition, place);
    const auto number = [&](std::uint64_t n) { return make(i64, {}, place, ir::Constant{n}); };
    const Ref begin = number(0), end = make(i64, {}, place, ir::Cast{condition}), step = number(1);
    const int loop = program_->loops++;
    append(place, ir::For{loop, fmt::format("i{}", loop), begin, end, step, false, {}, true, ir::is_vote(condition)});
    open_inside(ir::is_vote(condition));
}

Ref Recorder::open_each_warp(Ref count, const Place& place) {
    require_open(count, place);
    if (in_each_warp())
        throw UsageError(place,
                         "k.each_warp inside another; a warp has nobody to share its turns with: use k.serial there");
    if (role() >= 0)
        throw UsageError(place,
                         "k.each_warp in a role; a role of one warp is such a warp already, and larger ones share out "
                         "their work by tiles: put it ahead of k.roles, or make roles of one warp");
    if (by_warps())
        throw UsageError(place,
                         "k.each_warp in a condition by warps, where others may be missing; use a condition of the "
                         "block (any, all) around it");
    const Ref index =
        open_serial(constant(i64, std::int64_t{0}, place), count, constant(i64, std::int64_t{1}, place), place);
    Scope& scope = open_.back();
    scope.each_warp = true;
    scope.team = team_of_scope_[static_cast<std::size_t>(scope.id)] = scope.id;
    open_[open_.size() - 2].body->back().as<ir::For>()->each_warp = true;
    return index;
}

void Recorder::close_scope() noexcept { open_.pop_back(); }

void open_when(Ref condition, const Place& place) { Recorder::active(place).open_when(condition, place); }

Ref open_each_warp(Ref count, const Place& place) { return Recorder::active(place).open_each_warp(count, place); }

Ref open_serial(Ref begin, Ref end, Ref step, const Place& place) {
    return Recorder::active(place).open_serial(begin, end, step, place);
}
void close_scope() noexcept {
    if (current) current->close_scope();
}

Program record(const char* name, FunctionRef<Kernel&> body, const Place& place) {
    Recorder recorder(name, place);
    Kernel kernel(recorder.id());
    body(kernel);
    if (!recorder.grid_set) throw UsageError(place, fmt::format("kernel {} sets no grid; call k.grid(…) once", name));
    recorder.name_mbarriers();
    if (!recorder.program().roles.empty() || !recorder.rings.empty()) recorder.finish_roles();
    if (const auto fault = ir::find_each_warp_fault(recorder.program())) throw UsageError(fault->place, fault->text);
    return Program(recorder.release());
}

}  // namespace tessera::detail
