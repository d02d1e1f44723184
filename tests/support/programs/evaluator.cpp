#include "tests/support/programs/evaluator.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include <stdexcept>
#include <unordered_map>
#include <utility>

#include "dsl/ir/roles.hpp"
#include "dsl/ir/walk.hpp"
#include "tests/support/programs/arithmetic.hpp"

namespace tessera::test {
namespace {

using ir::Ref;

struct Tile {
    Shape shape;
    std::vector<std::uint64_t> elements;
};

using Position = std::vector<std::int64_t>;

std::int64_t flat(const Shape& shape, const Position& at) {
    std::int64_t index = 0;
    for (int axis = 0; axis < shape.rank(); ++axis) index = index * shape[axis] + at[axis];
    return index;
}

/// Calls f(position, flat index) for every element, in row-major order.
template <class F>
void each(const Shape& shape, F&& f) {
    Position at(shape.rank(), 0);
    const std::int64_t count = shape.count();
    for (std::int64_t i = 0; i < count; ++i) {
        std::int64_t rest = i;
        for (int axis = shape.rank() - 1; axis >= 0; --axis) at[axis] = rest % shape[axis], rest /= shape[axis];
        f(at, i);
    }
}

/// A tensor or shared tile as extents, strides and bytes.
struct Memory {
    Element type;
    std::uint8_t* base;
    struct Axis {
        std::int64_t extent, stride, inner, inner_stride;
    };
    std::vector<Axis> axes;

    bool holds(const Position& at) const {
        for (std::size_t a = 0; a < axes.size(); ++a)
            if (at[a] < 0 || at[a] >= axes[a].extent) return false;
        return true;
    }
    std::uint8_t* address(const Position& at) const {
        std::int64_t offset = 0;
        for (std::size_t a = 0; a < axes.size(); ++a)
            offset += at[a] / axes[a].inner * axes[a].stride + at[a] % axes[a].inner * axes[a].inner_stride;
        return base + offset * (bits_of(type) / 8);
    }
};

class Block {
public:
    Block(const ir::Program& program, const std::vector<void*>& tensors, const std::vector<std::uint64_t>& scalars,
          Position index)
        : program_(program), tensors_(tensors), scalars_(scalars), index_(std::move(index)) {
        for (const auto& tile : program.shared)
            shared_.emplace_back(tile.shape.count() * (bits_of(tile.type) / 8), 0xCD);
        for (const auto& v : program.variables) variables_.push_back({v.shape, {}});
    }

    void run(const ir::Body& body) {
        for (const auto& statement : body) {
            if (ir::role_of(statement) != nullptr) continue;
            memo_.clear();
            std::visit([&](const auto& op) { step(op); }, statement.op);
        }
        if (role_ < 0) run_roles(body);
    }

    ir::Offender reported;  // the first so far

    std::int64_t number(Ref node) { return integer_value(node->type, value(node).elements[0]); }

private:
    using Elements = std::vector<std::pair<std::uint8_t*, std::uint64_t>>;  // by their place in a shared tile
    using Written = std::pair<std::size_t, Elements>;                       // with the bytes of each

    /// What copies have brought to the slots of a ring, fill by fill, and how many of them each role has seen. A role's
    /// n-th use has what the n-th fill has copied, whatever slot that is.
    struct Ring {
        std::vector<Written> copies;  // since the last fill
        std::vector<std::vector<Written>> fills;
        std::map<int, std::size_t> taken;  // by role
    };

    /// One after the other, those that fill a ring ahead of those that use it.
    void run_roles(const ir::Body& body) {
        std::vector<const ir::For*> left;
        for (const ir::Statement& s : body)
            if (const ir::For* role = ir::role_of(s)) left.push_back(role);
        while (!left.empty()) {
            const auto next = std::find_if(left.begin(), left.end(), [&](const ir::For* role) {
                return std::none_of(left.begin(), left.end(), [&](const ir::For* other) {
                    return role != other && waits_for(role->body, other->body);
                });
            });
            if (next == left.end()) throw std::logic_error("roles that fill rings for each other");
            role_ = (*next)->role;
            run((*next)->body);
            left.erase(next);
        }
        role_ = -1;
    }
    static bool waits_for(const ir::Body& user, const ir::Body& filler) {
        bool found = false;
        ir::for_each_statement(filler, [&](const ir::Statement& filling) {
            const auto* commit = filling.as<ir::CommitCopies>();
            ir::for_each_statement(user, [&](const ir::Statement& s) {
                const auto* wait = s.as<ir::WaitCopies>();
                found = found || (commit && wait && !wait->first_warp && wait->mbarriers == commit->mbarriers);
            });
        });
        return found;
    }

    void step(const ir::For& loop) {
        const std::int64_t begin = number(loop.begin), end = number(loop.end), by = number(loop.step);
        for (std::int64_t i = begin; i < end; i += by) {
            counters_[loop.loop] = i;
            run(loop.body);
        }
        counters_.erase(loop.loop);
    }
    void step(const ir::Bind& bind) {
        bound_.erase(bind.value);  // of the turn before
        bound_[bind.value] = value(bind.value);
    }
    void step(const ir::Assign& assign) { variables_[assign.variable] = value(assign.value); }
    void step(const ir::Store& store) {
        const Tile& tile = value(store.value);
        const Memory memory = memory_of(store.view);
        const std::size_t bytes = bits_of(memory.type) / 8;
        each_place(store.view, [&](const Position& at, std::int64_t i) {
            if (memory.holds(at)) std::memcpy(memory.address(at), &tile.elements[i], bytes);
        });
    }
    void step(const ir::Accumulate& sum) {
        const Tile& tile = value(sum.value);
        const Memory memory = memory_of(sum.view);
        const std::size_t bytes = bits_of(memory.type) / 8;
        each_place(sum.view, [&](const Position& at, std::int64_t i) {
            if (!memory.holds(at)) return;
            std::uint64_t held = 0;  // little endian: the low bytes of a sum are the sum of the low bytes
            std::memcpy(&held, memory.address(at), bytes);
            held += tile.elements[i];
            std::memcpy(memory.address(at), &held, bytes);
        });
    }
    void step(const ir::Report& report) {
        const Tile &bad = value(report.bad), &told = value(report.value);
        const Memory memory = memory_of(report.view);
        each_place(report.view, [&](const Position& at, std::int64_t i) {
            if (!memory.holds(at) || element(bad, i) == 0) return;
            std::uint64_t place = 0;
            for (const std::int64_t c : at) place = place << 24 | static_cast<std::uint64_t>(c);
            reported = ir::Offender::first(reported,
                                           {static_cast<std::uint64_t>(report.rule) << 56 | place, element(told, i)});
        });
    }
    /// Done at once, as it may be: nobody looks before the wait, and what lies in a ring does so when it is used.
    void step(const ir::Copy& copy) {
        const std::size_t bytes = bits_of(program_.shared[copy.to.memory].type) / 8;
        if (role_ >= 0) return rings_[copy.mbarriers].copies.push_back({bytes, moved(copy)});
        write(bytes, moved(copy));
    }
    void step(const ir::WaitCopies& wait) {
        if (role_ < 0 || wait.first_warp) return;
        Ring& ring = rings_[wait.mbarriers];
        std::size_t& taken = ring.taken[role_];
        if (taken >= ring.fills.size()) throw std::logic_error("a ring is used more often than it is filled");
        for (const Written& piece : ring.fills[taken]) write(piece.first, piece.second);
        ++taken;
    }
    void step(const ir::CommitCopies& commit) {
        if (role_ < 0) return;
        Ring& ring = rings_[commit.mbarriers];
        ring.fills.push_back(std::move(ring.copies));
        ring.copies.clear();
    }
    void step(const ir::InitMbarriers&) {}
    void step(const ir::Arrive&) {}
    template <class Other>
    void step(const Other&) {
        throw std::logic_error("a lowered statement in a recorded program");
    }

    /// What a copy moves. By vectors and tensor maps, zeros come for what is outside of the tensor; in bulk, rows that
    /// are outside stay as they were.
    Elements moved(const ir::Copy& copy) {
        const Memory from = memory_of(copy.from), to = memory_of(copy.to);
        const std::size_t bytes = bits_of(from.type) / 8;
        std::vector<std::pair<bool, std::uint64_t>> read;
        each_place(copy.from, [&](const Position& at, std::int64_t) {
            std::uint64_t element = 0;
            if (from.holds(at)) std::memcpy(&element, from.address(at), bytes);
            read.push_back({from.holds(at), element});
        });
        const bool bulk = copy.mbarriers >= 0 && !copy.tensor;
        Elements out;
        each_place(copy.to, [&](const Position& at, std::int64_t i) {
            const auto [inside, element] = read[static_cast<std::size_t>(i)];
            if (inside || !bulk) out.push_back({to.address(at), element});
        });
        return out;
    }
    static void write(std::size_t bytes, const Elements& elements) {
        for (const auto& [address, element] : elements) std::memcpy(address, &element, bytes);
    }

    /// Calls f(coordinates in the memory, flat index in the tile).
    template <class F>
    void each_place(const ir::View& view, F&& f) {
        Shape extents;
        for (const auto& axis : view.axes) extents.push_back(axis.extent);
        std::vector<Tile> offsets;  // of one element, or an index for each position
        for (const auto& axis : view.axes) offsets.push_back(value(axis.offset));
        each(extents, [&](Position at, std::int64_t i) {
            for (std::size_t a = 0; a < offsets.size(); ++a) {
                const Tile& offset = offsets[a];
                const auto known = [&](std::int64_t n) {
                    return integer_value(view.axes[a].offset->type, element(offset, n));
                };
                at[a] = offset.shape.rank() == 0 ? at[a] + known(0) : known(at[a]);
            }
            f(at, i);
        });
    }

    Memory memory_of(const ir::View& view) {
        Memory memory;
        if (view.space == ir::Space::global) {
            const auto& tensor = program_.tensors[view.memory];
            memory.type = tensor.type;
            memory.base = static_cast<std::uint8_t*>(tensors_[view.memory]);
            for (const auto& axis : tensor.axes)
                memory.axes.push_back({number(axis.extent), number(axis.stride), axis.inner, axis.inner_stride});
            return memory;
        }
        const auto& tile = program_.shared[view.memory];
        memory.type = tile.type;
        memory.base = shared_[view.memory].data();
        std::int64_t stride = tile.shape.count();
        for (const std::int64_t extent : tile.shape) {
            stride /= extent;
            memory.axes.push_back({extent, stride, 1, 0});
        }
        return memory;
    }

    /// A bound tile as it was at its line; anything else as of now, once a statement.
    const Tile& value(Ref node) {
        for (const auto* known : {&bound_, &memo_})
            if (const auto found = known->find(node); found != known->end()) return found->second;
        Tile tile = std::visit([&](const auto& op) { return compute(node, op); }, node->op);
        return memo_.emplace(node, std::move(tile)).first->second;
    }

    Tile one(std::uint64_t bits) const { return {{}, {bits}}; }
    Tile compute(Ref, const ir::Constant& c) { return one(c.bits); }
    Tile compute(Ref, const ir::Parameter& p) { return one(scalars_[p.index]); }
    Tile compute(Ref, const ir::LoopIndex& l) { return one(static_cast<std::uint64_t>(counters_.at(l.loop))); }
    Tile compute(Ref, const ir::BlockIndex& b) { return one(static_cast<std::uint64_t>(index_[b.axis])); }
    Tile compute(Ref, const ir::VariableRead& v) { return variables_[v.variable]; }
    Tile compute(Ref node, const ir::Coordinate& c) {
        Tile out{node->shape, {}};
        each(node->shape, [&](const Position& at, std::int64_t) { out.elements.push_back(at[c.axis]); });
        return out;
    }

    /// Element i of an operand that may be of rank 0 beside tiles.
    static std::uint64_t element(const Tile& t, std::int64_t i) {
        return t.shape.rank() == 0 ? t.elements[0] : t.elements[i];
    }
    template <class F>
    static Tile map(const Shape& shape, F&& f) {
        Tile out{shape, {}};
        const std::int64_t count = shape.count();
        for (std::int64_t i = 0; i < count; ++i) out.elements.push_back(f(i));
        return out;
    }
    Tile compute(Ref node, const ir::Unary& u) {
        const Tile& a = value(u.value);
        return map(node->shape, [&](std::int64_t i) { return apply(u.op, node->type, element(a, i)); });
    }
    Tile compute(Ref node, const ir::Binary& b) {
        const Tile &x = value(b.a), &y = value(b.b);
        return map(node->shape, [&](std::int64_t i) { return apply(b.op, b.a->type, element(x, i), element(y, i)); });
    }
    Tile compute(Ref node, const ir::Select& s) {
        const Tile &c = value(s.condition), &x = value(s.a), &y = value(s.b);
        return map(node->shape, [&](std::int64_t i) { return element(c, i) != 0 ? element(x, i) : element(y, i); });
    }
    Tile compute(Ref node, const ir::Cast& c) {
        const Tile& a = value(c.value);
        return map(node->shape, [&](std::int64_t i) { return convert(c.value->type, node->type, element(a, i)); });
    }
    Tile compute(Ref node, const ir::Lookup& l) {
        const Tile& codes = value(l.index);
        std::vector<const Tile*> table;
        for (Ref entry : l.table) table.push_back(&value(entry));
        const Tile* signs = l.signs ? &value(l.signs) : nullptr;
        const std::uint64_t sign = node->type == u8 ? 0 : std::uint64_t{1} << (bits_of(node->type) - 1);
        return map(node->shape, [&](std::int64_t i) {
            const std::uint64_t code = element(codes, i), entry = element(*table[code % 8], i);
            return code >= 8 && (!signs || element(*signs, i) != 0) ? entry ^ sign : entry;
        });
    }
    Tile compute(Ref, const ir::Bitcast& b) { return value(b.value); }
    Tile compute(Ref, const ir::Convert& c) { return value(c.value); }
    Tile compute(Ref node, const ir::Load& load) {
        const std::uint64_t fill = value(load.fill).elements[0];
        const Memory memory = memory_of(load.view);
        Tile out{node->shape, std::vector<std::uint64_t>(node->shape.count(), fill)};
        const std::size_t bytes = bits_of(memory.type) / 8;
        each_place(load.view, [&](const Position& at, std::int64_t i) {
            if (!memory.holds(at)) return;
            out.elements[i] = 0;
            std::memcpy(&out.elements[i], memory.address(at), bytes);
        });
        return out;
    }
    Tile compute(Ref node, const ir::Reduce& r) {
        const Tile& a = value(r.value);
        Tile out{node->shape, std::vector<std::uint64_t>(node->shape.count())};
        static constexpr ir::BinaryOp fold[] = {ir::BinaryOp::add, ir::BinaryOp::max, ir::BinaryOp::min,
                                                ir::BinaryOp::bit_or, ir::BinaryOp::add};
        const ir::BinaryOp op = fold[static_cast<int>(r.op)];
        each(a.shape, [&](Position at, std::int64_t i) {
            const bool first = at[r.axis] == 0;
            at[r.axis] = 0;
            std::uint64_t& into = out.elements[flat(node->shape, at)];
            into = first ? a.elements[i] : apply(op, node->type, into, a.elements[i]);
        });
        return out;
    }
    /// Of the whole tile: programs must mean the same however it is spread over warps.
    Tile compute(Ref, const ir::WarpReduce& vote) {
        const Tile& a = value(vote.value);
        const auto holds = [](std::uint64_t truth) { return truth != 0; };
        const bool any = std::any_of(a.elements.begin(), a.elements.end(), holds);
        return one(vote.op == ir::ReduceOp::max ? any : std::all_of(a.elements.begin(), a.elements.end(), holds));
    }
    Tile compute(Ref node, const ir::Least& l) {
        const Tile& a = value(l.value);
        const std::int64_t width = is_signed_integer(node->type) ? bits_of(node->type) - 1 : bits_of(node->type);
        Tile out{node->shape, std::vector<std::uint64_t>(node->shape.count(), ~0ull >> (64 - width))};
        each(node->shape, [&](Position at, std::int64_t i) {
            const std::int64_t rank = at[l.axis] + l.first;
            if (rank >= l.count) return;
            std::vector<std::uint64_t> line;
            for (at[l.axis] = 0; at[l.axis] < a.shape[l.axis]; ++at[l.axis])
                line.push_back(a.elements[flat(a.shape, at)]);
            std::sort(line.begin(), line.end(),
                      [&](std::uint64_t x, std::uint64_t y) { return apply(ir::BinaryOp::lt, node->type, x, y) != 0; });
            out.elements[i] = line[static_cast<std::size_t>(rank)];
        });
        return out;
    }
    Tile compute(Ref node, const ir::Scan& s) {
        const Tile& a = value(s.value);
        Tile out{node->shape, std::vector<std::uint64_t>(a.elements.size())};
        each(a.shape, [&](Position at, std::int64_t i) {
            std::uint64_t& sum = out.elements[i];
            const std::int64_t end = at[s.axis] + (s.exclusive ? 0 : 1);
            for (at[s.axis] = 0; at[s.axis] < end; ++at[s.axis])
                sum = apply(ir::BinaryOp::add, node->type, sum, a.elements[flat(a.shape, at)]);
        });
        return out;
    }
    Tile compute(Ref node, const ir::Match& m) {
        const Tile& a = value(m.value);
        Tile out{node->shape, std::vector<std::uint64_t>(node->shape.count())};
        each(a.shape, [&](Position at, std::int64_t i) {
            for (at[m.axis] = 0; at[m.axis] < 32; ++at[m.axis])
                out.elements[i] |= std::uint64_t{a.elements[i] == a.elements[flat(a.shape, at)]} << at[m.axis];
        });
        return out;
    }
    Tile compute(Ref node, const ir::Mma& m) {
        const Tile &a = value(m.a), &b = value(m.b), &c = value(m.c);
        Tile out{node->shape, {}};
        const Element type = m.a->type;
        each(node->shape, [&](const Position& at, std::int64_t i) {
            double sum = float_value(f32, element(c, i));
            for (std::int64_t k = 0; k < a.shape[1]; ++k)
                sum += double{float_value(type, a.elements[at[0] * a.shape[1] + k])} *
                       double{float_value(type, b.elements[at[1] * a.shape[1] + k])};
            out.elements.push_back(float_bits(f32, static_cast<float>(sum)));
        });
        return out;
    }
    Tile compute(Ref node, const ir::Broadcast& b) {
        const Tile& a = value(b.value);
        Tile out{node->shape, {}};
        each(node->shape, [&](Position at, std::int64_t) {
            for (int axis = 0; axis < a.shape.rank(); ++axis)
                if (a.shape[axis] == 1) at[axis] = 0;
            out.elements.push_back(a.elements[a.shape.rank() == 0 ? 0 : flat(a.shape, at)]);
        });
        return out;
    }
    Tile compute(Ref node, const ir::Reshape& r) { return {node->shape, value(r.value).elements}; }
    Tile compute(Ref node, const ir::Permute& p) {
        const Tile& a = value(p.value);
        Tile out{node->shape, {}};
        Position from(node->shape.rank());
        each(node->shape, [&](const Position& at, std::int64_t) {
            for (std::size_t axis = 0; axis < at.size(); ++axis) from[p.order[axis]] = at[axis];
            out.elements.push_back(a.elements[flat(a.shape, from)]);
        });
        return out;
    }
    template <class Other>
    Tile compute(Ref, const Other&) {
        throw std::logic_error("a lowered node in a recorded program");
    }

    const ir::Program& program_;
    const std::vector<void*>& tensors_;
    const std::vector<std::uint64_t>& scalars_;
    Position index_;
    std::vector<std::vector<std::uint8_t>> shared_;
    std::vector<Tile> variables_;
    std::map<int, std::int64_t> counters_;
    std::unordered_map<Ref, Tile> bound_, memo_;
    int role_ = -1;              // that runs
    std::map<int, Ring> rings_;  // by the mbarriers that count their copies
};

}  // namespace

ir::Offender evaluate(const ir::Program& recorded, const std::vector<void*>& tensors,
                      const std::vector<std::uint64_t>& scalars) {
    Block outside(recorded, tensors, scalars, {});
    Shape grid;
    for (const Ref extent : recorded.grid) grid.push_back(outside.number(extent));
    std::vector<Block> blocks;
    each(grid, [&](const Position& index, std::int64_t) { blocks.emplace_back(recorded, tensors, scalars, index); });
    ir::Body part;  // up to a grid sync all blocks go before any goes on
    for (const ir::Statement& s : recorded.body) {
        if (!s.as<ir::GridSync>()) {
            part.push_back(s);
            continue;
        }
        for (Block& block : blocks) block.run(part);
        part.clear();
    }
    ir::Offender first;
    for (Block& block : blocks) {
        block.run(part);
        first = ir::Offender::first(first, block.reported);
    }
    return first;
}

}  // namespace tessera::test
