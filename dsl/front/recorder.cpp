#include "dsl/front/recorder.hpp"

#include <algorithm>
#include <cctype>
#include <fmt/format.h>

#include "dsl/base/error.hpp"
#include "dsl/front/kernel.hpp"

namespace tessera::detail {

namespace {
thread_local Recorder* current = nullptr;
}

std::string text_of(const Shape& shape) {
    std::string text = "[";
    for (int i = 0; i < shape.rank(); ++i) text += fmt::format("{}{}", i ? ", " : "", shape[i]);
    return text + "]";
}

Recorder::Recorder(const char* name, const Place& place) : program_(new ir::Program), outer_(current) {
    program_->name = name;
    program_->place = place;
    open_.push_back({0, &program_->body});
    current = this;
    require_new_name(name, "the kernel", place);
}

Recorder::~Recorder() {
    current = outer_;
    delete program_;
}

Recorder& Recorder::active(const Place& place) {
    if (!current)
        throw UsageError(
            place, "a kernel operation outside record(); kernels are written in the function given to tessera::record");
    return *current;
}

ir::Program* Recorder::release() {
    ir::Program* done = program_;
    program_ = nullptr;
    return done;
}

Ref Recorder::make(Element type, const Shape& shape, const Place& place, ir::Op op) {
    const Ref node = program_->arena->make(type, shape, place, std::move(op));
    scope_of_.push_back(open_.back().id);
    made_.push_back(node);
    return node;
}

void Recorder::append(const Place& place, ir::StatementOp op) { open_.back().body->push_back({place, std::move(op)}); }

Ref Recorder::bind(Element type, const Shape& shape, const Place& place, ir::Op op) {
    const Ref node = make(type, shape, place, std::move(op));
    append(place, ir::Bind{node});
    return node;
}

void Recorder::require_open(Ref value, const Place& place) const {
    const auto id = static_cast<std::size_t>(value->id);
    if (id >= made_.size() || made_[id] != value)
        throw UsageError(place,
                         "a value of another recording is used here; values belong to the record() that made them");
    const int scope = scope_of_[id];
    for (const Scope& s : open_)
        if (s.id == scope) return;
    throw UsageError(
        place,
        fmt::format("a value made inside a loop ({}:{}) is used after the loop ended; carry it out with k.variable",
                    value->place.file, value->place.line));
}

void Recorder::require_new_name(const std::string& name, const char* what, const Place& place) {
    const bool identifier =
        !name.empty() && !std::isdigit(static_cast<unsigned char>(name[0])) &&
        std::all_of(name.begin(), name.end(), [](unsigned char c) { return std::isalnum(c) || c == '_'; });
    if (!identifier) throw UsageError(place, fmt::format("\"{}\" names {}; names are C identifiers", name, what));
    if (std::find(names_.begin(), names_.end(), name) != names_.end())
        throw UsageError(place,
                         fmt::format("\"{}\" names {} but already names something else in this kernel", name, what));
    names_.push_back(name);
}

Ref Recorder::open_serial(Ref begin, Ref end, Ref step, const Place& place) {
    for (Ref bound : {begin, end, step}) require_open(bound, place);
    const int loop = program_->loops++;
    const std::string name = fmt::format("i{}", loop);
    append(place, ir::For{loop, name, begin, end, step, false, {}});
    ir::Body& body = open_.back().body->back().as<ir::For>()->body;
    open_.push_back({scopes_++, &body});
    return make(i64, {}, place, ir::LoopIndex{loop});
}

void Recorder::close_scope() { open_.pop_back(); }

Ref open_serial(Ref begin, Ref end, Ref step, const Place& place) {
    return Recorder::active(place).open_serial(begin, end, step, place);
}
void close_scope() { Recorder::active({}).close_scope(); }

Program record(const char* name, FunctionRef<Kernel&> body, const Place& place) {
    Recorder recorder(name, place);
    Kernel kernel;
    body(kernel);
    if (!recorder.grid_set) throw UsageError(place, fmt::format("kernel {} sets no grid; call k.grid(…) once", name));
    return Program(recorder.release());
}

}  // namespace tessera::detail
