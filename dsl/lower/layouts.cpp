#include <algorithm>
#include <bit>
#include <fmt/format.h>
#include <numeric>

#include "dsl/base/error.hpp"
#include "dsl/ir/walk.hpp"
#include "dsl/lower/expressions.hpp"
#include "dsl/lower/mma.hpp"
#include "dsl/lower/plan.hpp"
#include "dsl/lower/warp.hpp"

// Tiles that reach each other without crossing lanes form a group and share one layout, seen through splits, merges and
// permutations. A group takes its layout from the first of: a product that it is an operand or the result of; a load
// with a distribution given by the writer; a reduction's result (its operand's layout without the axis); a tile that it
// holds indices of; its largest load; the tiles it is broadcast into; its own extents.

namespace tessera::lower {

namespace {

/// Whether the lanes of an axis come together in the node, so that it has a layout of its own.
bool folds(Ref n) { return n->as<ir::Reduce>() || n->as<ir::Least>(); }
/// What such a node folds, and the layout that this gives it.
Ref folded(Ref n) { return n->as<ir::Reduce>() ? n->as<ir::Reduce>()->value : n->as<ir::Least>()->value; }
Layout folded_layout(const Layout& value, Ref n) {
    const auto* least = n->as<ir::Least>();
    return least ? least_layout(value, *least) : project(value, n->as<ir::Reduce>()->axis);
}

struct Group {
    std::vector<Ref> members;
    int widest_bits = 0;               // over the memories that it is loaded from and stored to
    int vector = 1 << 20;              // the longest that all of them allow
    int pack = 1;                      // elements that share bytes in one of them
    bool leaves = false;               // stored, reduced or assigned, not only broadcast
    Ref product = nullptr;             // the first operand or result of a product on tensor cores, which lies …
    std::optional<Layout> of_product;  // … so
    Ref given = nullptr;               // load with a distribution of its own
    Ref load = nullptr;                // the largest
    Ref reduced = nullptr;             // the first reduction's result
    Ref spread = nullptr;              // a broadcast, in another group, of a member
    Ref index = nullptr;  // a member whose elements say where `indexed`, of another group, lies along an axis
    Ref indexed = nullptr;
    int indexed_axis = 0;
    std::optional<Layout> copied;  // of a member whose elements say where what is copied lies
    enum { untouched, under_way, done } state = untouched;
    int run() const { return std::max(vector, pack); }
};

class Assignment {
public:
    Assignment(const ir::Program& p, const Target& t, Plan& plan)
        : program_(p),
          target_(t),
          plan_(plan),
          parent_(static_cast<std::size_t>(p.arena->size()) + p.variables.size()) {
        std::iota(parent_.begin(), parent_.end(), 0);
        plan_.layouts.resize(static_cast<std::size_t>(p.arena->size()));
        plan_.variables.resize(p.variables.size());
    }

    void run() {
        collect();
        form_groups();
        for (Ref n : order_)
            if (!n->scalar()) settle(group_of(n));
        for (std::size_t v = 0; v < program_.variables.size(); ++v) settle_variable(v);
        for (Ref n : order_) read_as_held(n);
        for (Ref n : order_) ir::for_each_operand(*n, [&](Ref operand) { meet(n, operand); });
        ir::for_each_statement(program_.body, [&](const ir::Statement& s) {
            const auto* a = s.as<ir::Assign>();
            if (a && !a->value->scalar()) meet_variable(*a);
        });
    }

private:
    std::size_t variable_slot(int v) const { return static_cast<std::size_t>(program_.arena->size() + v); }
    std::size_t find(std::size_t i) {
        while (parent_[i] != i) i = parent_[i] = parent_[parent_[i]];
        return i;
    }
    void unite(std::size_t a, std::size_t b) { parent_[find(b)] = find(a); }
    void unite(Ref a, Ref b) {
        if (!a->scalar() && !b->scalar()) unite(static_cast<std::size_t>(a->id), static_cast<std::size_t>(b->id));
    }
    Group& group_of(Ref n) { return groups_[find(static_cast<std::size_t>(n->id))]; }

    /// Every live node in program order, operands first.
    void collect() {
        ir::NodeSet met;
        ir::for_each_statement(program_.body, [&](const ir::Statement& s) {
            if (const auto* b = s.as<ir::Bind>())
                if (!plan_.is_bound(b->value)) return;
            ir::for_each_ref(s, [&](Ref r) {
                ir::for_each_node(r, met, [&](Ref n) {
                    if (!plan_.in_place(n)) order_.push_back(n);
                });
            });
        });
    }

    void form_groups() {
        for (Ref n : order_) {
            if (n->as<ir::Load>() || folds(n) || n->as<ir::Broadcast>()) continue;
            if (const auto* product = n->as<ir::Mma>()) {
                unite(n, product->c);
                continue;
            }
            if (const auto* v = n->as<ir::VariableRead>()) {
                if (!n->scalar()) unite(variable_slot(v->variable), static_cast<std::size_t>(n->id));
                continue;
            }
            ir::for_each_operand(*n, [&](Ref operand) { unite(n, operand); });
        }
        ir::for_each_statement(program_.body, [&](const ir::Statement& s) {
            const auto* a = s.as<ir::Assign>();
            if (a && !a->value->scalar()) unite(variable_slot(a->variable), static_cast<std::size_t>(a->value->id));
            if (const auto* report = s.as<ir::Report>()) unite(report->bad, report->value);
        });
        groups_.resize(parent_.size());
        for (Ref n : order_) describe(n);
        ir::for_each_statement(program_.body, [&](const ir::Statement& s) {
            if (const auto* st = s.as<ir::Store>()) note_indices(st->view, st->value);
            if (const auto* a = s.as<ir::Accumulate>()) note_indices(a->view, a->value);
            if (const auto* report = s.as<ir::Report>()) note_indices(report->view, report->bad);
            if (const auto* copy = s.as<ir::Copy>()) note_copied(*copy, s.place);
            if (const auto* st = s.as<ir::Store>(); st && !st->value->scalar()) {
                Group& g = group_of(st->value);
                g.leaves = true;
                touch(g, st->view);
            }
            if (const auto* a = s.as<ir::Accumulate>(); a && !a->value->scalar()) group_of(a->value).leaves = true;
            if (const auto* a = s.as<ir::Assign>(); a && !a->value->scalar()) group_of(a->value).leaves = true;
        });
    }

    void describe(Ref n) {
        if (const auto* vote = n->as<ir::WarpReduce>(); vote && !vote->value->scalar())
            group_of(vote->value).leaves = true;
        if (n->scalar()) return;
        Group& g = group_of(n);
        g.members.push_back(n);
        if (const auto* load = n->as<ir::Load>()) {
            touch(g, load->view);
            note_indices(load->view, n);
            if (load->per_thread.rank() > 0 && !g.given) g.given = n;
            if (!g.load || n->shape.count() > g.load->shape.count()) g.load = n;
        }
        if (folds(n)) {
            if (!g.reduced) g.reduced = n;
            group_of(folded(n)).leaves = true;
        }
        if (const auto* b = n->as<ir::Broadcast>(); b && !b->value->scalar()) group_of(b->value).spread = n;
        if (const auto* op = n->as<ir::Mma>()) {
            const MmaLayouts layouts = mma_layouts(plan_, *n, threads_of(n));
            for (const auto& [tile, layout] : {std::pair{op->a, &layouts.a}, {op->b, &layouts.b}, {n, &layouts.c}})
                if (Group& group = group_of(tile); !group.product && !plan_.in_place(tile))
                    group.product = tile, group.of_product = *layout, group.leaves = true;
        }
    }

    void note_indices(const ir::View& view, Ref data) {
        int axis = 0;
        for (const ir::ViewAxis& a : view.axes) {
            if (a.picked) continue;
            if (!a.offset->scalar()) {
                Group& g = group_of(a.offset);
                if (&g != &group_of(data) && !g.indexed) g.index = a.offset, g.indexed = data, g.indexed_axis = axis;
            }
            ++axis;
        }
    }

    void note_copied(const ir::Copy& copy, const Place& place) {
        int axis = -1, vector = 1, tile_axis = 0;
        const Layout layout = copy_layout(program_, copy, place, target_, axis, vector);
        for (const ir::ViewAxis& a : copy.from.axes) {
            if (a.picked) continue;
            if (!a.offset->scalar()) {
                Group& g = group_of(a.offset);
                if (!g.copied)
                    g.index = a.offset, g.copied = Layout{{layout.axes[static_cast<std::size_t>(tile_axis)]}};
            }
            ++tile_axis;
        }
    }

    void touch(Group& g, const ir::View& view) const {
        int axis = -1;
        g.widest_bits = std::max(g.widest_bits, bits_of(memory_type(view)));
        g.vector = std::min(g.vector, longest_vector(program_, view, target_, axis));
        g.pack = std::max(g.pack, packed_elements_of(memory_type(view)));
    }
    Element memory_type(const ir::View& v) const {
        const auto i = static_cast<std::size_t>(v.memory);
        return v.space == ir::Space::global ? program_.tensors[i].type : program_.shared[i].type;
    }

    void settle(Group& g) {
        if (g.state != Group::untouched || g.members.empty()) return;
        g.state = Group::under_way;
        Ref anchor = g.product ? g.product : g.given;
        if (g.product) {
            set(anchor, *g.of_product);
            for (Ref n : g.members)  // each as its instructions leave it; where two meet, one is converted
                if (n->as<ir::Mma>()) set(n, mma_layouts(plan_, *n, threads_of(n)).c);
        } else if (anchor) {
            for (Ref n : g.members)  // each as it was given; where two meet, one is converted
                if (const auto* load = n->as<ir::Load>(); load && load->per_thread.rank() > 0) set(n, given_layout(n));
        } else if (g.reduced && settled(folded(g.reduced))) {
            anchor = g.reduced;
            set(anchor, folded_layout(plan_.layout(folded(anchor)), anchor));
        } else if (g.copied && !g.indexed) {
            anchor = g.index;
            set(anchor, *g.copied);
        } else if (g.indexed && settled(g.indexed)) {
            anchor = g.index;
            set(anchor, Layout{{plan_.layout(g.indexed).axes[static_cast<std::size_t>(g.indexed_axis)]}});
        } else if (g.load && g.leaves) {
            anchor = g.load;
            set(anchor, loaded_layout(g));
        } else if (g.spread && settled(g.spread)) {
            anchor = g.spread->as<ir::Broadcast>()->value;
            set(anchor, narrowed(plan_.layout(g.spread), anchor->shape));
        } else if (g.load) {
            anchor = g.load;
            set(anchor, loaded_layout(g));
        } else {
            anchor = *std::max_element(g.members.begin(), g.members.end(),
                                       [](Ref a, Ref b) { return a->shape.count() < b->shape.count(); });
            set(anchor, plain_layout(anchor, g));
        }
        spread_from(anchor, g);
        g.state = Group::done;
    }

    bool settled(Ref n) {
        settle(group_of(n));
        return plan_.layouts[static_cast<std::size_t>(n->id)].has_value();
    }

    void set(Ref n, Layout layout) {
        if (slots_of(layout) > 512)
            throw UsageError(
                n->place,
                fmt::format("a tile of {} elements over {} threads leaves {} elements a thread, more than 512; take a "
                            "smaller tile, or more threads and extents with the factors of 2 to spread over them",
                            n->shape.count(), threads_of(n), slots_of(layout)));
        require_threads(threads_of(n), n->place);
        plan_.layouts[static_cast<std::size_t>(n->id)] = canonical(std::move(layout));
    }

    int threads_of(Ref n) const { return plan_.team_of(n).threads; }
    void require_threads(int threads, const Place& place) const {
        if (!std::has_single_bit(static_cast<unsigned>(threads)))
            throw UsageError(place, fmt::format("a tile outside of the roles, in a block of {} threads: tiles divide "
                                                "over a power of two of them; load it in the role that needs it, or in "
                                                "k.each_warp, or take such a number of threads",
                                                program_.threads));
    }

    static Layout narrowed(const Layout& layout, const Shape& shape) {
        Layout result = layout;
        for (int i = 0; i < shape.rank(); ++i)
            if (shape[i] == 1) result.axes[static_cast<std::size_t>(i)].clear();
        return result;
    }

    Layout given_layout(Ref n) const {
        const auto& load = *n->as<ir::Load>();
        int axis = -1;
        longest_vector(program_, load.view, target_, axis);
        return natural_layout(n->shape, axis < 0 ? n->shape.rank() - 1 : axis, load.per_thread, threads_of(n),
                              load.lanes);
    }
    Layout loaded_layout(const Group& g) const {
        int axis = -1;
        longest_vector(program_, g.load->as<ir::Load>()->view, target_, axis);
        return with_vector(g.load->shape, axis, std::min(g.run(), most_elements(g)), g.pack, threads_of(g.load));
    }
    Layout plain_layout(Ref n, const Group& g) const {
        return with_vector(n->shape, n->shape.rank() - 1, g.widest_bits ? std::min(g.run(), most_elements(g)) : 1,
                           g.pack, threads_of(n));
    }
    /// Elements of the widest memory in one access; packed elements at least as many as share bytes.
    int most_elements(const Group& g) const {
        const int n = target_.vector_bytes() * 8 / g.widest_bits;
        return std::max(g.pack, static_cast<int>(std::bit_floor(static_cast<unsigned>(n))));
    }
    /// Shorter vectors than wanted, down to `least`, where long ones leave a thread with too much: 40 columns are 5
    /// vectors of 8, which no two threads share, but 20 of 2.
    Layout with_vector(const Shape& shape, int axis, int vector, int least, int threads) const {
        constexpr std::int64_t plenty = 128;  // elements of a thread
        if (axis < 0) axis = shape.rank() - 1;
        std::optional<Layout> best;
        for (std::int64_t run = std::gcd<std::int64_t>(vector, shape[axis]); run >= 1; run /= 2) {
            Shape inner;
            for (int i = 0; i < shape.rank(); ++i) inner.push_back(i == axis ? run : 1);
            Layout layout = natural_layout(shape, axis, inner, threads);
            if (!best || slots_of(layout) < slots_of(*best)) best = std::move(layout);
            if (slots_of(*best) <= plenty || run % 2 != 0 || run / 2 < least) break;
        }
        return *best;
    }

    /// From the anchor over the group's edges, both ways, until nothing is new.
    void spread_from(Ref anchor, Group& g) {
        bool changed = true;
        while (changed) {
            changed = false;
            for (Ref n : g.members) {
                if (n->as<ir::Load>() || folds(n) || n->as<ir::Broadcast>()) continue;
                if (const auto* product = n->as<ir::Mma>()) {
                    changed |= carry(n, product->c);
                    continue;
                }
                if (const auto* v = n->as<ir::VariableRead>()) {
                    changed |= share(plan_.variables[static_cast<std::size_t>(v->variable)],
                                     plan_.layouts[static_cast<std::size_t>(n->id)]);
                    continue;
                }
                ir::for_each_operand(*n, [&](Ref operand) {
                    if (!operand->scalar()) changed |= carry(n, operand);
                });
            }
            ir::for_each_statement(program_.body, [&](const ir::Statement& s) {
                const auto* a = s.as<ir::Assign>();
                if (a && !a->value->scalar() && &group_of(a->value) == &g)
                    changed |= share(plan_.variables[static_cast<std::size_t>(a->variable)],
                                     plan_.layouts[static_cast<std::size_t>(a->value->id)]);
                const auto* report = s.as<ir::Report>();
                if (report && !report->bad->scalar() && !report->value->scalar() && &group_of(report->bad) == &g)
                    changed |= share(plan_.layouts[static_cast<std::size_t>(report->bad->id)],
                                     plan_.layouts[static_cast<std::size_t>(report->value->id)]);
            });
        }
        (void)anchor;
        for (Ref n : g.members)  // what a cut that does not fit kept apart
            if (!plan_.layouts[static_cast<std::size_t>(n->id)]) set(n, plain_layout(n, g));
    }

    static bool share(std::optional<Layout>& a, std::optional<Layout>& b) {
        if (a.has_value() == b.has_value()) return false;
        (a ? b : a) = a ? a : b;
        return true;
    }

    bool carry(Ref n, Ref operand) {
        auto& mine = plan_.layouts[static_cast<std::size_t>(n->id)];
        auto& theirs = plan_.layouts[static_cast<std::size_t>(operand->id)];
        if (mine.has_value() == theirs.has_value()) return false;
        if (mine) {
            theirs = required(n, operand);
            return theirs.has_value();
        }
        if (const auto* p = n->as<ir::Permute>())
            mine = permute(*theirs, p->order);
        else if (n->as<ir::Reshape>())
            mine = reshape(*theirs, n->shape);
        else
            mine = theirs;
        return mine.has_value();
    }

    /// The layout in which `n`, as laid out, needs its operand; nothing if it takes any.
    std::optional<Layout> required(Ref n, Ref operand) const {
        const Layout& mine = plan_.layout(n);
        if (const auto* product = n->as<ir::Mma>(); product && operand != product->c) {
            const MmaLayouts layouts = mma_layouts(plan_, *n, threads_of(n));
            return operand == product->a ? layouts.a : layouts.b;
        }
        if (n->as<ir::Broadcast>()) return canonical(narrowed(mine, operand->shape));
        if (n->as<ir::Reshape>()) return reshape(mine, operand->shape);
        if (const auto* p = n->as<ir::Permute>()) {
            Layout back;
            back.axes.resize(mine.axes.size());
            for (std::size_t i = 0; i < p->order.size(); ++i)
                back.axes[static_cast<std::size_t>(p->order[i])] = mine.axes[i];
            return back;
        }
        return mine;
    }

    void settle_variable(std::size_t v) {
        const ir::Variable& variable = program_.variables[v];
        if (!variable.shape.empty() && !plan_.variables[v])
            plan_.variables[v] = with_vector(variable.shape, variable.shape.rank() - 1, 1, 1,
                                             plan_.teams[plan_.variable_teams[v]].threads);
    }

    /// A variable is read as it lies, whatever the reader's group has settled on; users that want it otherwise convert.
    void read_as_held(Ref n) {
        const auto* v = n->as<ir::VariableRead>();
        if (v && !n->scalar())
            plan_.layouts[static_cast<std::size_t>(n->id)] = plan_.variables[static_cast<std::size_t>(v->variable)];
    }

    void meet(Ref n, Ref operand) {
        if (operand->scalar() || n->scalar() || n->as<ir::Load>() || folds(n) || plan_.in_place(operand)) return;
        std::optional<Layout> need = required(n, operand);
        if (need && canonical(*need) == plan_.layout(operand)) return;
        if (!need) {
            // A border of the reshape falls inside a digit of n's layout: n takes the operand's, its users convert.
            const std::optional<Layout> seen = reshape(plan_.layout(operand), n->shape);
            require_internal(n->as<ir::Reshape>() && seen, "a tile cannot be seen with other extents in any layout");
            return set(n, *seen);
        }
        plan_.conversions.push_back({n, -1, operand, canonical(*need)});
    }
    void meet_variable(const ir::Assign& a) {
        const Layout& need = *plan_.variables[static_cast<std::size_t>(a.variable)];
        if (!(need == plan_.layout(a.value))) plan_.conversions.push_back({nullptr, a.variable, a.value, need});
    }

    const ir::Program& program_;
    const Target& target_;
    Plan& plan_;
    std::vector<std::size_t> parent_;  // nodes, then variables
    std::vector<Ref> order_;
    std::vector<Group> groups_;
};

}  // namespace

void choose_layouts(const ir::Program& program, const Target& target, Plan& plan) {
    Assignment(program, target, plan).run();
}

}  // namespace tessera::lower
