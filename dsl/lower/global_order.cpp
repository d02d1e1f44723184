#include "dsl/lower/global_order.hpp"

#include <algorithm>
#include <string>

#include "dsl/ir/walk.hpp"
#include "dsl/lower/expressions.hpp"

namespace tessera::lower {

namespace {

/// What the accesses to one tensor or shared tile have in common so far.
struct Accesses {
    int count = 0;
    bool repeated = false;          // one stands in a loop
    bool other_than_added = false;  // loaded or stored
    bool scattered = true;          // all are stores to a tensor by tiles of indices
    bool alike = true;              // each thread, or lane of warps, meets the same elements in all of them
    std::string first;              // how threads and elements belong together in the first
    std::size_t team = 0;           // that meets it in the first
    bool handed_on = false;         // warps by themselves meet it, and other warps before or after

    bool need_order() const {
        return (count > 1 || repeated) && other_than_added && !scattered && (!alike || handed_on);
    }
};

class Pass {
public:
    Pass(const ir::Program& p, const Target& t, const Plan& plan)
        : program_(p),
          target_(t),
          plan_(plan),
          tensors_(p.tensors.size()),
          shared_(p.shared.size()),
          tensors_alone_(p.tensors.size()),
          shared_alone_(p.shared.size()) {
        walk(p.body, false);
    }

    void decide(Plan& plan) const {
        plan.ordered = of_tensors(tensors_), plan.ordered_alone = of_tensors(tensors_alone_);
        plan.ordered_shared = of_shared(shared_), plan.ordered_shared_alone = of_shared(shared_alone_);
    }

private:
    std::vector<bool> of_tensors(const std::vector<Accesses>& tensors) const {
        std::vector<bool> order;
        for (std::size_t i = 0; i < tensors.size(); ++i)
            order.push_back(program_.tensors[i].role != ir::Role::input && tensors[i].need_order());
        return order;
    }
    static std::vector<bool> of_shared(const std::vector<Accesses>& tiles) {
        std::vector<bool> order;
        for (const Accesses& a : tiles) order.push_back(a.need_order());
        return order;
    }

    void walk(const ir::Body& body, bool in_loop) {
        for (const ir::Statement& s : body) {
            if (const auto* b = s.as<ir::Bind>())
                if (const auto* load = b->value->as<ir::Load>(); load && plan_.is_bound(b->value))
                    plan_.in_place(b->value) ? note_product(load->view, in_loop)
                                             : note(load->view, b->value, in_loop, Kind::load);
            if (const auto* st = s.as<ir::Store>()) note(st->view, st->value, in_loop, Kind::store);
            if (const auto* a = s.as<ir::Accumulate>()) note(a->view, a->value, in_loop, Kind::add);
            if (const auto* c = s.as<ir::Copy>()) {
                int axis = -1, vector = 1;
                const Layout layout = copy_layout(program_, *c, s.place, target_, axis, vector);
                note(c->to, &layout, in_loop, Kind::copy);
                note(c->from, &layout, in_loop, Kind::copy);
            }
            if (const auto* f = s.as<ir::For>()) walk_loop(*f, in_loop);
        }
    }

    void walk_loop(const ir::For& loop, bool in_loop) {
        const std::size_t around = team_, inside = plan_.loop_teams[static_cast<std::size_t>(loop.loop)];
        const bool again = comes_again_;
        if (inside > 0) team_ = inside, comes_again_ = in_loop;
        walk(loop.body, in_loop || !loop.when);
        team_ = around, comes_again_ = again;
    }

    enum class Kind : std::uint8_t { load, store, copy, add };

    void note(const ir::View& view, Ref value, bool in_loop, Kind kind) {
        note(view, value->scalar() ? nullptr : &plan_.layout(value), in_loop, kind);
    }
    /// layout: null for one element.
    void note(const ir::View& view, const Layout* layout, bool in_loop, Kind kind) {
        const bool global = view.space == ir::Space::global;
        const auto i = static_cast<std::size_t>(view.memory);
        Accesses& a = global ? tensors_[i] : shared_[i];
        note_team(a);
        note(a, view, layout, in_loop, kind);
        if (plan_.teams[team_].each_warp)
            note(global ? tensors_alone_[i] : shared_alone_[i], view, layout, in_loop, kind);
    }
    void note(Accesses& a, const ir::View& view, const Layout* layout, bool in_loop, Kind kind) {
        const std::string shape = threads_of(view, layout, kind);
        if (a.count++ == 0) a.first = shape;
        a.repeated = a.repeated || in_loop;
        a.other_than_added = a.other_than_added || kind != Kind::add;
        a.scattered = a.scattered && kind == Kind::store && by_index(view) && view.space == ir::Space::global;
        // A load by threads that hold copies meets what only the lowest of them stores.
        a.alike = a.alike && shape == a.first && begins_at_multiples(view, layout, regroups(view, layout, kind)) &&
                  !(kind == Kind::load && has_copies(layout));
    }

    /// Ahead of what the access changes.
    void note_team(Accesses& a) const {
        const auto each_warp = [&](std::size_t team) { return plan_.teams[team].each_warp; };
        if (a.count == 0) a.team = team_;
        a.handed_on = a.handed_on || (each_warp(team_) && comes_again_) ||
                      (a.team != team_ && (each_warp(a.team) || each_warp(team_)));
    }

    /// Tensor cores read for all threads.
    void note_product(const ir::View& view, bool in_loop) {
        Accesses& a = shared_[static_cast<std::size_t>(view.memory)];
        note_team(a);
        ++a.count;
        a.repeated = a.repeated || in_loop;
        a.other_than_added = true;
        a.scattered = a.alike = false;
    }

    static bool by_index(const ir::View& view) {
        return std::any_of(view.axes.begin(), view.axes.end(),
                           [](const ir::ViewAxis& axis) { return !axis.offset->scalar(); });
    }
    /// Axis by axis of the memory: null for one that is picked along.
    template <class Fn>
    static void each_axis(const ir::View& view, const Layout* layout, Fn&& fn) {
        std::size_t tile_axis = 0;
        for (const ir::ViewAxis& axis : view.axes) fn(axis, axis.picked ? nullptr : &layout->axes[tile_axis++]);
    }
    static bool spreads(const AxisModes* modes) {
        return modes && std::any_of(modes->begin(), modes->end(), [](const Mode& m) { return m.thread(); });
    }
    static bool begins_at_multiples(const ir::View& view, const Layout* layout, bool on_all_axes) {
        bool all = !by_index(view);
        each_axis(view, layout, [&](const ir::ViewAxis& axis, const AxisModes* modes) {
            all = all && (!(spreads(modes) || on_all_axes) || is_multiple(axis.offset, axis.extent));
        });
        return all;
    }

    bool has_copies(const Layout* layout) const {
        std::int64_t used = 1;
        if (layout)
            for (const AxisModes& axis : layout->axes)
                for (const Mode& m : axis)
                    if (m.thread()) used *= m.extent;
        return used < plan_.teams[team_].threads;
    }

    /// Whether long runs are handed to other threads before they are stored; which, all extents tell.
    bool regroups(const ir::View& view, const Layout* layout, Kind kind) const {
        int axis = -1;
        const int vector = longest_vector(program_, view, target_, axis);
        if (kind != Kind::store || axis < 0) return false;
        const AxisModes& modes = layout->axes[static_cast<std::size_t>(axis)];
        return !modes.empty() && !modes.back().thread() && modes.back().extent > vector;
    }

    /// The threads along the axes of the memory, with the extents of those; equal texts, equal threads at equal places.
    /// Along other axes a thread meets all there is, whatever the extent. Teams count their threads from their first.
    std::string threads_of(const ir::View& view, const Layout* layout, Kind kind) const {
        const int first = plan_.teams[team_].first_thread;
        const bool all = regroups(view, layout, kind);
        std::string text = std::to_string(first) + (all ? " regrouped " : " ");
        each_axis(view, layout, [&](const ir::ViewAxis& axis, const AxisModes* modes) {
            text += spreads(modes) || all ? std::to_string(axis.extent) + ":" : "*";
            for (const Mode& m : spreads(modes) ? *modes : AxisModes())
                text += std::to_string(m.extent) + (m.thread() ? "t" + std::to_string(m.stride) : "") + " ";
        });
        return text;
    }

    const ir::Program& program_;
    const Target& target_;
    const Plan& plan_;
    std::vector<Accesses> tensors_, shared_;
    std::vector<Accesses> tensors_alone_, shared_alone_;  // by warps by themselves
    std::size_t team_ = 0;                                // that runs what is looked at
    bool comes_again_ = false;                            // it is a warp's body, in a loop of the block
};

}  // namespace

void choose_order(const ir::Program& program, const Target& target, Plan& plan) {
    Pass(program, target, plan).decide(plan);
}

}  // namespace tessera::lower
