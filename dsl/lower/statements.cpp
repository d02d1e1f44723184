#include <algorithm>

#include "dsl/base/error.hpp"
#include "dsl/ir/walk.hpp"
#include "dsl/lower/tile_code.hpp"

namespace tessera::lower {

TileCode::TileCode(const ir::Program& recorded, const Target& target, const Plan& plan)
    : in_(recorded), target_(target), plan_(plan), threads_(recorded.threads), e_(*out_.arena), facts_(recorded) {
    out_.name = in_.name;
    out_.stage = ir::Stage::lowered;
    out_.place = in_.place;
    out_.threads = in_.threads;
    out_.roles = in_.roles;
    out_.least_blocks = in_.least_blocks;
    out_.dependent_launch = in_.dependent_launch;
    out_.cooperative = in_.cooperative;
    out_.scalars = in_.scalars;
    out_.shared = in_.shared;
    out_.rules = in_.rules;
    loop_of_.resize(static_cast<std::size_t>(in_.loops), -1);
    named_.emplace_back();
    body_ = &out_.body;
    out_.tensors = in_.tensors;
    for (ir::TensorParam& t : out_.tensors) {
        new_name(t.name);
        for (ir::Axis& a : t.axes) {
            a.extent = scalar(a.extent);
            a.stride = scalar(a.stride);
        }
    }
    for (const ir::ScalarParam& s : out_.scalars) new_name(s.name);
    for (const ir::SharedTile& s : out_.shared) new_name(s.name);
    for (Ref extent : in_.grid) out_.grid.push_back(scalar(extent));
}

ir::Program TileCode::run() {
    place_ = in_.place;
    number_blocks();
    variables_.resize(in_.variables.size());
    number_warps();
    declare_variables(0);
    lower_body(in_.body);
    return std::move(out_);
}

/// A barrier ahead of an access that others may have to be ordered with; needless ones are dropped later. Scatters to
/// one shared tile that follow each other meet different elements.
void TileCode::order(const ir::View& view, bool scatters) {
    bool apart = false;
    if (view.space == ir::Space::shared) {
        if (scatters)
            apart = !scattered_.insert(view.memory).second;
        else
            scattered_.erase(view.memory);
    }
    if (!apart && plan_.needs_order(view.space, view.memory, each_warp_)) emit(ir::Barrier{});
}

void TileCode::emit(ir::StatementOp op) {
    if (warp_scopes_ > 0 && (std::holds_alternative<ir::Barrier>(op) || std::holds_alternative<ir::MmaFence>(op)))
        throw UsageError(
            place_,
            "inside a condition by warps something crosses warps here: a reduction, a change of layout or an "
            "access that others must be ordered with; use a condition of the block (any, all), or load the "
            "tile with lanes = 32, so that a warp holds whole lines");
    body_->push_back({place_, std::move(op)});
}

std::string TileCode::new_name(const std::string& wanted) {
    const int n = names_[wanted]++;
    if (n == 0) return wanted;
    return new_name(wanted + "_" + std::to_string(n + 1));
}

/// Names a value where it is computed; the same expression in scope keeps its first name.
Ref TileCode::name_value(const std::string& wanted, Ref value) {
    for (const auto& scope : named_) {
        const auto it = scope.find(value);
        if (it != scope.end()) return it->second;
    }
    const int local = static_cast<int>(out_.locals.size());
    out_.locals.push_back(new_name(wanted));
    emit(ir::Let{local, value});
    const Ref name = e_.make(value->type, value->shape, ir::Local{local});
    named_.back().emplace(value, name);
    return name;
}

/// The grid is launched in one dimension; its indices are the digits of the block's number, the last axis fastest.
void TileCode::number_blocks() {
    static const char* const names[] = {"block_x", "block_y", "block_z"};
    const Ref block = e_.make(i64, {}, ir::LinearBlock{});
    blocks_.assign(in_.grid.size(), nullptr);
    if (in_.grid.size() == 1) {
        blocks_[0] = name_value(names[0], block);
        return;
    }
    Ref rest = e_.make(u32, {}, ir::Cast{block});
    for (std::size_t i = in_.grid.size(); i-- > 0;) {
        std::int64_t extent = 0;
        const Ref count = out_.grid[i];
        const Ref divisor = constant_value(count, extent) ? e_.number(u32, extent) : e_.make(u32, {}, ir::Cast{count});
        const Ref index = i == 0 ? rest : e_.binary(ir::BinaryOp::mod, rest, divisor);
        blocks_[i] = name_value(names[i], e_.widen(index));
        if (i > 0) rest = e_.binary(ir::BinaryOp::div, rest, divisor);
    }
}

RegisterTile TileCode::declare(const Layout& layout, Element type, int fast_axis, int most_pack,
                               const std::string& name) {
    RegisterTile tile;
    tile.type = type;
    tile.layout = canonical(layout);
    std::int64_t stride = 1;
    tile.strides.resize(tile.layout.axes.size());
    for (std::size_t a = 0; a < tile.layout.axes.size(); ++a) tile.strides[a].assign(tile.layout.axes[a].size(), 0);
    const auto number_axis = [&](std::size_t a, bool innermost_only) {
        const AxisModes& modes = tile.layout.axes[a];
        for (std::size_t i = modes.size(); i-- > 0;) {
            if (innermost_only && (i + 1 != modes.size() || modes[i].thread())) break;
            if (modes[i].thread() || tile.strides[a][i]) continue;
            tile.strides[a][i] = stride;
            stride *= modes[i].extent;
        }
    };
    if (fast_axis >= 0) number_axis(static_cast<std::size_t>(fast_axis), true);
    const std::int64_t fast = stride;
    for (std::size_t a = tile.layout.axes.size(); a-- > 0;) number_axis(a, false);
    const int bits = register_bits_of(type);
    if (bits < 32 && type != boolean)
        tile.pack = static_cast<int>(std::min<std::int64_t>({32 / bits, most_pack, fast & -fast}));
    tile.array = static_cast<int>(out_.arrays.size());
    out_.arrays.push_back(
        {new_name(name), type, tile.pack, static_cast<int>(stride / tile.pack), text_of(tile.layout)});
    emit(ir::Declare{tile.array});
    return tile;
}

void TileCode::in_loops(Iteration& it, const std::function<void()>& body) {
    static const char* const names[] = {"i", "j", "k", "l"};
    ir::Body* const outer = body_;
    int depth = 0;
    for (Digit& d : it.digits) d.counter = nullptr;
    for (const auto& axis : it.root)
        for (int index : axis) {
            Digit& d = it.digits[static_cast<std::size_t>(index)];
            if (d.thread() || d.extent == d.expand) continue;
            const int loop = out_.loops++;
            emit(ir::For{loop, names[std::min(depth, 3)], e_.i32(0), e_.i32(d.extent / d.expand), e_.i32(1), true, {}});
            d.counter = e_.make(i32, {}, ir::LoopIndex{loop});
            body_ = &body_->back().as<ir::For>()->body;
            named_.emplace_back();
            ++depth;
        }
    body();
    for (; depth > 0; --depth) named_.pop_back();
    body_ = outer;
    for (Digit& d : it.digits) d.counter = nullptr;
}

void TileCode::each_word(int words, const std::function<void(Ref)>& body) { each_turn("i", words, body); }

void TileCode::each_turn(const char* name, std::int64_t turns, const std::function<void(Ref)>& body) {
    if (turns == 1) return body(e_.i32(0));
    ir::Body* const outer = body_;
    const int loop = out_.loops++;
    emit(ir::For{loop, name, e_.i32(0), e_.i32(turns), e_.i32(1), true, {}});
    body_ = &body_->back().as<ir::For>()->body;
    named_.emplace_back();
    body(e_.make(i32, {}, ir::LoopIndex{loop}));
    named_.pop_back();
    body_ = outer;
}

/// The axis whose neighbours a packed value under the tree holds side by side; else the last with any.
int TileCode::preferred_axis(const Iteration& it, Ref value) const {
    Iteration look = it;
    std::vector<Ref> leaves;
    look_ahead(look, value, look.root, &leaves);
    int last = -1;
    for (std::size_t a = 0; a < look.root.size(); ++a) {
        const int d = look.innermost_slot(look.root[a]);
        if (d < 0) continue;
        if (look.digits[static_cast<std::size_t>(d)].expand > 1) return static_cast<int>(a);
        last = static_cast<int>(a);
    }
    return last;
}

/// Computes a tree into the registers of a tile of the same layout.
void TileCode::set_tile(Ref value, const RegisterTile& tile) {
    Iteration it(tile.layout, e_, threads_);
    if (value->scalar()) {
        each_word(out_.arrays[static_cast<std::size_t>(tile.array)].words, [&](Ref i) {
            const Ref v = scalar(value);
            const Ref w = tile.pack > 1 ? e_.make(tile.type, {tile.pack},
                                                  ir::Pack{std::vector<Ref>(static_cast<std::size_t>(tile.pack), v)})
                                        : v;
            emit(ir::Set{tile.array, i, w});
        });
        return;
    }
    prepare(it, {value});
    Run run;
    for (const auto& axis : it.root) {  // the digits that neighbours in a word differ in
        if (tile.pack == 1 || run.length > 1 || axis.empty()) continue;
        const auto c = it.coefficients(tile, it.root);
        const int d = it.innermost_slot(axis);
        if (d >= 0 && c[static_cast<std::size_t>(d)] == 1) run = run_along(it, axis, tile.pack);
    }
    for (std::size_t i = 0; i < run.digits.size(); ++i)
        run.counts[i] = it.digits[static_cast<std::size_t>(run.digits[i])].expand;
    run.length = 1;
    for (std::int64_t n : run.counts) run.length *= n;
    in_loops(it, [&] {
        it.each_constant(run.digits, [&] {
            for (std::int64_t first = 0; first < run.length; first += tile.pack) {
                const Ref v = word(it, value, it.root, run, first, tile.pack);
                set_lane(it, run, first);
                std::int64_t lane = 0;
                emit(ir::Set{tile.array, word_index(it, tile, it.root, lane), v});
            }
        });
    });
}

/// Between tiles of one layout that number their registers each in its own way.
void TileCode::copy_registers(const RegisterTile& from, const RegisterTile& to) {
    Iteration it(to.layout, e_, threads_);
    for (const auto& axis : it.root)
        for (int d : axis) it.expand(d, it.digits[static_cast<std::size_t>(d)].extent);
    in_loops(it, [&] {
        it.each_constant({}, [&] {
            std::int64_t lane = 0;
            const Ref v = read_lane(it, from, it.root);
            emit(ir::Set{to.array, word_index(it, to, it.root, lane), v});
        });
    });
}

/// The same tile in another layout, through shared memory.
RegisterTile TileCode::converted(const RegisterTile& from, const Shape& extents, const Layout& to) {
    const ir::View view = scratch("exchange", from.type, extents);
    emit(ir::Comment{"to the layout " + text_of(to)});
    emit(ir::Barrier{});
    store_registers(view, from);
    emit(ir::Barrier{});
    int axis = -1;
    const int most = longest_vector(out_, view, target_, axis);
    const RegisterTile result = declare(to, from.type, axis, most, "moved");
    load_piece(view, nullptr, result);
    return result;
}

void TileCode::convert(const Plan::Conversion& c) {
    const Ref operand = c.operand;
    const RegisterTile* tile = tile_of(nullptr, operand);
    RegisterTile own;
    if (!tile) {
        own = own_registers(operand, "value");
        tile = &own;
    }
    const RegisterTile result = converted(*tile, operand->shape, c.layout);
    converted_[&c] = result;
}

/// Conversions that the statement's trees need, ahead of it.
void TileCode::convert_for(const ir::Statement& s) {
    if (plan_.conversions.empty()) return;
    ir::NodeSet met;
    const std::function<void(Ref, bool)> visit = [&](Ref n, bool root) {
        if (!met.add(n) || (!root && tiles_.count(n->id))) return;
        ir::for_each_operand(*n, [&](Ref operand) {
            visit(operand, false);
            if (const Plan::Conversion* c = plan_.conversion(n, operand)) convert(*c);
        });
    };
    const bool bind = s.as<ir::Bind>() != nullptr;
    ir::for_each_ref(s, [&](Ref r) { visit(r, bind); });
    if (const auto* a = s.as<ir::Assign>())
        for (const Plan::Conversion& c : plan_.conversions)
            if (!c.user && c.variable == a->variable && c.operand == a->value) convert(c);
}

void TileCode::lower_bind(Ref node) {
    if (plan_.in_place(node)) return;
    if (const auto* load = node->as<ir::Load>()) {
        order(load->view);
        if (!node->scalar()) return load_tile(node);
        const RegisterTile word = declare(Layout{}, node->type, -1, 1, memory_name(load->view));
        load_piece(load->view, scalar(load->fill), word, load->cache);
        values_[node->id] = e_.make(node->type, {}, ir::Register{word.array, e_.i32(0)});
        return;
    }
    if (node->as<ir::Reduce>()) return reduce(node);
    if (node->as<ir::Least>()) return least(node);
    if (node->as<ir::WarpReduce>()) return vote(node);
    if (node->as<ir::Scan>()) return scan(node);
    if (node->as<ir::Match>()) require_lanes(node);
    if (const auto* product = node->as<ir::Mma>()) return plan_.in_place(product->b) ? warpgroup_mma(node) : mma(node);
    if (const auto* v = node->as<ir::VariableRead>()) {
        const RegisterTile& state = variables_[static_cast<std::size_t>(v->variable)];
        if (node->scalar()) {
            values_[node->id] = name_value(in_.variables[static_cast<std::size_t>(v->variable)].name + "_now",
                                           e_.make(node->type, {}, ir::Register{state.array, e_.i32(0)}));
            named_.back().clear();  // a register's value is not a name for the next reading of it
            return;
        }
        const RegisterTile copy =
            declare(state.layout, state.type, static_cast<int>(state.layout.axes.size()) - 1, state.pack,
                    in_.variables[static_cast<std::size_t>(v->variable)].name + "_now");
        const Shape word = state.pack > 1 ? Shape{state.pack} : Shape{};
        each_word(out_.arrays[static_cast<std::size_t>(copy.array)].words, [&](Ref i) {
            emit(ir::Set{copy.array, i, e_.make(state.type, word, ir::Register{state.array, i})});
        });
        tiles_[node->id] = copy;
        return;
    }
    if (node->scalar()) {
        values_[node->id] = name_value("t", scalar(node));
        return;
    }
    tiles_[node->id] = own_registers(node, "v");
}

void TileCode::lower_loop(const ir::For& loop) {
    const Ref begin = uniform(loop.begin), step = uniform(loop.step);
    const Ref end = loop.warp ? scalar(loop.end) : uniform(loop.end);
    const int id = out_.loops++;
    scattered_.clear();
    loop_of_[static_cast<std::size_t>(loop.loop)] = id;
    emit(ir::For{id, loop.when ? "when" : "step", begin, end, step, false, {}, loop.when, loop.warp});
    ir::Body* const outer = body_;
    body_ = &body_->back().as<ir::For>()->body;
    named_.emplace_back();
    warp_scopes_ += loop.warp;
    lower_body(loop.body);
    warp_scopes_ -= loop.warp;
    named_.pop_back();
    body_ = outer;
    if (loop.when) hoist_barrier(*body_);
    scattered_.clear();
}

void TileCode::lower_statement(const ir::Statement& s) {
    for (int view : seen_) tiles_.erase(view);
    seen_.clear();
    if (const auto* b = s.as<ir::Bind>())
        if (!plan_.is_bound(b->value)) return;
    place_ = s.place;
    convert_for(s);
    if (const auto* b = s.as<ir::Bind>()) return lower_bind(b->value);
    if (const auto* st = s.as<ir::Store>()) {
        order(st->view, std::any_of(st->view.axes.begin(), st->view.axes.end(),
                                    [](const ir::ViewAxis& a) { return !a.offset->scalar(); }));
        return store_piece(st->view, st->value, st->cache);
    }
    if (const auto* a = s.as<ir::Accumulate>()) {
        order(a->view);
        return add_piece(a->view, a->value);
    }
    if (const auto* r = s.as<ir::Report>()) return report_piece(*r);
    if (const auto* c = s.as<ir::Copy>()) {
        order(c->to);
        order(c->from);
        return copy_piece(*c);
    }
    if (const auto* w = s.as<ir::WaitCopies>()) return wait(*w);
    if (const auto* c = s.as<ir::CommitCopies>())
        return emit(ir::CommitCopies{c->mbarriers, c->stage ? e_.narrow(scalar(c->stage)) : nullptr});
    if (const auto* a = s.as<ir::Arrive>()) return emit(ir::Arrive{a->mbarriers, e_.narrow(scalar(a->stage))});
    if (const auto* i = s.as<ir::InitMbarriers>()) return emit(*i), emit(ir::Barrier{});
    if (s.as<ir::GridSync>()) return emit(ir::GridSync{});
    if (s.as<ir::KernelAheadWait>()) return emit(ir::KernelAheadWait{});
    if (const auto* a = s.as<ir::Assign>()) {
        const RegisterTile& state = variables_[static_cast<std::size_t>(a->variable)];
        for (const Plan::Conversion& c : plan_.conversions)
            if (!c.user && c.variable == a->variable && c.operand == a->value)
                return copy_registers(converted_.at(&c), state);
        return set_tile(a->value, state);
    }
    if (const auto* f = s.as<ir::For>())
        return f->role >= 0 ? lower_role(*f) : f->each_warp ? lower_each_warp(*f) : lower_loop(*f);
    throw InternalError("a lowered statement stands in a recorded program");
}

void TileCode::lower_body(const ir::Body& body) {
    for (const ir::Statement& s : body) lower_statement(s);
}

}  // namespace tessera::lower
