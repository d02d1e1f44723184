#include <algorithm>

#include "dsl/ir/each_warp.hpp"
#include "dsl/ir/walk.hpp"
#include "dsl/lower/tile_code.hpp"

// Teams of threads: the block, its roles, and each of its warps by itself. Tiles, barriers, scratch and numbers that
// all threads hold alike are a team's own.

namespace tessera::lower {

void TileCode::declare_variables(std::size_t team) {
    for (std::size_t v = 0; v < in_.variables.size(); ++v) {
        if (plan_.variable_teams[v] != team) continue;
        const ir::Variable& variable = in_.variables[v];
        place_ = variable.place;
        const Layout layout = variable.shape.empty() ? Layout{} : *plan_.variables[v];
        // Narrow elements lie packed, as they come from memory; but a conversion sets them one by one.
        const bool one_by_one = std::any_of(
            plan_.conversions.begin(), plan_.conversions.end(),
            [&](const Plan::Conversion& c) { return c.user == nullptr && c.variable == static_cast<int>(v); });
        variables_[v] =
            declare(layout, variable.type, static_cast<int>(layout.axes.size()) - 1, one_by_one ? 1 : 4, variable.name);
    }
}

/// Names the number of the warp and of the lane once, where warps run by themselves.
void TileCode::number_warps() {
    if (!ir::has_each_warp(in_)) return;
    const bool single = in_.threads == ir::threads_of_warp;
    warp_ = single ? e_.i32(0) : name_value("warp", e_.div(e_.thread(), ir::threads_of_warp));
    lane_ = single ? e_.thread() : name_value("lane", e_.mod(e_.thread(), ir::threads_of_warp));
}

/// A shared tile that the lowering itself needs. Warps that run by themselves have one each.
ir::View TileCode::scratch(const std::string& name, Element type, const Shape& shape) {
    Shape extents;
    if (each_warp_) extents.push_back(in_.threads / ir::threads_of_warp);
    for (std::int64_t extent : shape) extents.push_back(extent);
    ir::View view{ir::Space::shared, static_cast<int>(out_.shared.size()), {}};
    out_.shared.push_back({new_name(name), type, extents, {}, place_});
    if (each_warp_) view.axes.push_back({warp_, 1, true});
    for (std::int64_t extent : shape) view.axes.push_back({e_.i64(0), extent, false});
    return view;
}

/// A truth, or a whole number of 32 bits or less, of which all lanes hold the same: by one instruction, after which it
/// surely is one. Null for others.
Ref TileCode::agreed(Ref number) {
    const auto* wide = number->as<ir::Cast>();
    const Ref value = wide && number->type == i64 ? wide->value : number;
    const bool narrow = value->type == boolean || (is_integer(value->type) && bits_of(value->type) <= 32);
    if (!narrow) return nullptr;
    const Ref all = over_warp(ir::ReduceOp::max, scalar(value));
    return e_.make(number->type, {}, ir::Cast{snapshot(value->type == boolean ? "decided" : "count", all)});
}

/// A number that every thread surely holds alike. What went through registers of several threads is handed round by the
/// first: barriers in a loop need all threads to make the same turns.
Ref TileCode::uniform(Ref number) {
    ir::NodeSet met;
    bool exchanged = false;
    ir::for_each_node(number, met, [&](Ref n) {
        exchanged = exchanged || n->as<ir::Reduce>() || n->as<ir::Least>() || n->as<ir::Match>() || n->as<ir::Mma>() ||
                    n->as<ir::Scan>() || n->as<ir::VariableRead>();
    });
    if (!exchanged) return scalar(number);
    if (each_warp_)
        if (const Ref one = agreed(number)) return one;
    const ir::View view = scratch("count", number->type, {1});
    const RegisterTile word = declare(Layout{{{}}}, number->type, -1, 1, "count");
    Iteration it(word.layout, e_, threads_);
    const Address base = address(view, it, memory_name(view));
    emit(ir::Barrier{});
    emit(ir::StoreVector{access(view, it, base, -1, 1, true), {scalar(number)}});
    emit(ir::Barrier{});
    load_piece(view, nullptr, word);
    return e_.make(number->type, {}, ir::Register{word.array, e_.i32(0)});
}

/// A body that other threads than the block's run: tiles lie over those of its team. `begin` numbers them.
void TileCode::lower_team(const ir::For& recorded, ir::For lowered, const std::function<void()>& begin) {
    const std::size_t team = plan_.loop_teams[static_cast<std::size_t>(recorded.loop)];
    loop_of_[static_cast<std::size_t>(recorded.loop)] = lowered.loop;
    emit(std::move(lowered));
    ir::Body* const outer = body_;
    const Place place = place_;
    body_ = &body_->back().as<ir::For>()->body;
    named_.emplace_back();
    scattered_.clear();
    threads_ = plan_.teams[team].threads;
    each_warp_ = plan_.teams[team].each_warp;
    begin();
    declare_variables(team);
    place_ = place;
    lower_body(recorded.body);
    e_.set_thread(nullptr);
    each_warp_ = false;
    threads_ = in_.threads;
    scattered_.clear();
    named_.pop_back();
    body_ = outer;
}

/// What the block has done before, all roles see.
void TileCode::lower_role(const ir::For& role) {
    const ir::WarpRole& r = in_.roles[static_cast<std::size_t>(role.role)];
    if (role.role == 0) emit(ir::Barrier{});
    ir::For lowered{out_.loops++, "role", e_.i64(0), e_.i64(1), e_.i64(1), false, {}, true};
    lowered.role = role.role;
    lower_team(role, std::move(lowered), [&] {
        if (r.first_warp > 0)
            e_.set_thread(
                name_value(r.name + "_thread", e_.binary(ir::BinaryOp::sub, e_.thread(), e_.i32(r.first_thread()))));
    });
}

/// What the block has done before, all warps see, and what warps have done before in other turns of theirs.
void TileCode::lower_each_warp(const ir::For& loop) {
    const Ref end = uniform(loop.end);
    emit(ir::Barrier{});
    ir::For lowered{out_.loops++, "item", e_.widen(warp_), end, e_.i64(in_.threads / ir::threads_of_warp), false,
                    {},           false};
    lowered.each_warp = true;
    lower_team(loop, std::move(lowered), [&] { e_.set_thread(lane_); });
}

}  // namespace tessera::lower
