#include "dsl/lower/global_order.hpp"

#include <algorithm>
#include <string>

#include "dsl/ir/walk.hpp"
#include "dsl/lower/expressions.hpp"

namespace tessera::lower {

namespace {

/// Whether a number is surely a multiple of n.
bool is_multiple(Ref number, std::int64_t n) {
    std::int64_t value = 0;
    if (n == 1) return true;
    if (constant_value(number, value)) return value % n == 0;
    const auto* b = number->as<ir::Binary>();
    if (!b) return false;
    if (b->op == ir::BinaryOp::mul) return is_multiple(b->a, n) || is_multiple(b->b, n);
    if (b->op == ir::BinaryOp::add || b->op == ir::BinaryOp::sub) return is_multiple(b->a, n) && is_multiple(b->b, n);
    return false;
}

/// What the accesses to one tensor have in common so far.
struct Accesses {
    int count = 0;
    bool repeated = false;          // one stands in a loop
    bool other_than_added = false;  // loaded or stored
    bool scattered = true;          // all are stores by tiles of indices
    bool alike = true;              // each thread meets the same elements in all of them
    std::string first;              // how threads and elements belong together in the first

    bool need_order() const { return (count > 1 || repeated) && other_than_added && !scattered && !alike; }
};

class Pass {
public:
    Pass(const ir::Program& p, const Target& t, const Plan& plan)
        : program_(p), target_(t), plan_(plan), tensors_(p.tensors.size()) {
        walk(p.body, false);
    }

    std::vector<bool> result() const {
        std::vector<bool> order;
        for (std::size_t i = 0; i < tensors_.size(); ++i)
            order.push_back(program_.tensors[i].role != ir::Role::input && tensors_[i].need_order());
        return order;
    }

private:
    void walk(const ir::Body& body, bool in_loop) {
        for (const ir::Statement& s : body) {
            if (const auto* b = s.as<ir::Bind>())
                if (const auto* load = b->value->as<ir::Load>(); load && plan_.is_bound(b->value))
                    note(load->view, b->value, in_loop, Kind::load);
            if (const auto* st = s.as<ir::Store>()) note(st->view, st->value, in_loop, Kind::store);
            if (const auto* a = s.as<ir::Accumulate>()) note(a->view, a->value, in_loop, Kind::add);
            if (const auto* f = s.as<ir::For>()) walk(f->body, in_loop || !f->when);
        }
    }

    enum class Kind : std::uint8_t { load, store, add };

    void note(const ir::View& view, Ref value, bool in_loop, Kind kind) {
        if (view.space != ir::Space::global) return;
        Accesses& a = tensors_[static_cast<std::size_t>(view.memory)];
        const std::string shape = threads_of(view, value, kind);
        if (a.count++ == 0) a.first = shape;
        a.repeated = a.repeated || in_loop;
        a.other_than_added = a.other_than_added || kind != Kind::add;
        a.scattered = a.scattered && kind == Kind::store && by_index(view);
        // A load by threads that hold copies meets what only the lowest of them stores.
        a.alike =
            a.alike && shape == a.first && begins_at_multiples(view) && !(kind == Kind::load && has_copies(value));
    }

    static bool by_index(const ir::View& view) {
        return std::any_of(view.axes.begin(), view.axes.end(),
                           [](const ir::ViewAxis& axis) { return !axis.offset->scalar(); });
    }
    static bool begins_at_multiples(const ir::View& view) {
        for (const ir::ViewAxis& axis : view.axes)
            if (!axis.offset->scalar() || !is_multiple(axis.offset, axis.extent)) return false;
        return true;
    }

    bool has_copies(Ref value) const {
        std::int64_t used = 1;
        if (!value->scalar())
            for (const AxisModes& axis : plan_.layout(value).axes)
                for (const Mode& m : axis)
                    if (m.thread()) used *= m.extent;
        return used < program_.threads;
    }

    /// Extents along the axes of the memory and the threads along them; equal texts, equal threads at equal places.
    std::string threads_of(const ir::View& view, Ref value, Kind kind) const {
        std::string text;
        int tile_axis = 0;
        for (const ir::ViewAxis& axis : view.axes) {
            text += std::to_string(axis.extent) + ":";
            if (axis.picked) continue;
            for (const Mode& m : plan_.layout(value).axes[static_cast<std::size_t>(tile_axis++)])
                text += std::to_string(m.extent) + (m.thread() ? "t" + std::to_string(m.stride) : "") + " ";
        }
        // Long runs may be handed to other threads before they are stored.
        int axis = -1;
        const int vector = longest_vector(program_, view, target_, axis);
        if (kind == Kind::store && axis >= 0) {
            const AxisModes& modes = plan_.layout(value).axes[static_cast<std::size_t>(axis)];
            if (!modes.empty() && !modes.back().thread() && modes.back().extent > vector)
                text += "by " + std::to_string(vector);
        }
        return text;
    }

    const ir::Program& program_;
    const Target& target_;
    const Plan& plan_;
    std::vector<Accesses> tensors_;
};

}  // namespace

std::vector<bool> tensors_to_order(const ir::Program& program, const Target& target, const Plan& plan) {
    return Pass(program, target, plan).result();
}

}  // namespace tessera::lower
