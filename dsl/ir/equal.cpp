#include "dsl/ir/equal.hpp"

#include <string>
#include <type_traits>
#include <variant>
#include <vector>

#include "dsl/ir/statement_fields.hpp"

namespace tessera::ir {

namespace {

/// Collects pointers to the fields of `b`, so that they can be met in step with those of `a`.
template <class Visit>
std::vector<const void*> addresses(Visit&& visit) {
    std::vector<const void*> out;
    visit([&](const char*, const auto& field) { out.push_back(&field); });
    return out;
}

class Comparison {
public:
    bool same(const Program& a, const Program& b) {
        return a.name == b.name && a.stage == b.stage && a.threads == b.threads && a.least_blocks == b.least_blocks &&
               a.dependent_launch == b.dependent_launch && a.cooperative == b.cooperative && a.loops == b.loops &&
               a.shared_bytes == b.shared_bytes && a.locals == b.locals && same(a.tensors, b.tensors) &&
               same(a.scalars, b.scalars) && same(a.maps, b.maps) && same(a.grid, b.grid) && same(a.shared, b.shared) &&
               same(a.variables, b.variables) && same(a.rules, b.rules) && same(a.roles, b.roles) &&
               same(a.arrays, b.arrays) && same(a.body, b.body);
    }

private:
    template <class T>
        requires(std::is_arithmetic_v<T> || std::is_enum_v<T>)
    bool same(T a, T b) {
        return a == b;
    }
    bool same(const std::string& a, const std::string& b) { return a == b; }
    bool same(const Shape& a, const Shape& b) { return a == b; }

    template <class T>
    bool same(const std::vector<T>& a, const std::vector<T>& b) {
        if (a.size() != b.size()) return false;
        for (std::size_t i = 0; i < a.size(); ++i)
            if (!same(a[i], b[i])) return false;
        return true;
    }

    bool same(const Axis& a, const Axis& b) {
        return a.inner == b.inner && a.inner_stride == b.inner_stride && same(a.extent, b.extent) &&
               same(a.stride, b.stride);
    }
    bool same(const TensorParam& a, const TensorParam& b) {
        return a.name == b.name && a.type == b.type && a.role == b.role && a.align == b.align && same(a.axes, b.axes);
    }
    bool same(const ScalarParam& a, const ScalarParam& b) {
        return a.name == b.name && a.type == b.type && a.multiple_of == b.multiple_of;
    }
    bool same(const SharedTile& a, const SharedTile& b) {
        return a.name == b.name && a.type == b.type && a.shape == b.shape && a.byte_offset == b.byte_offset &&
               a.swizzle.bits == b.swizzle.bits && a.swizzle.base == b.swizzle.base &&
               a.swizzle.shift == b.swizzle.shift;
    }
    bool same(const TensorMap& a, const TensorMap& b) {
        return a.name == b.name && a.tensor == b.tensor && a.box == b.box && a.swizzle == b.swizzle;
    }
    bool same(const Variable& a, const Variable& b) {
        return a.name == b.name && a.type == b.type && a.shape == b.shape;
    }
    bool same(const WarpRole& a, const WarpRole& b) {
        return a.name == b.name && a.first_warp == b.first_warp && a.warps == b.warps && a.registers == b.registers;
    }
    bool same(const Rule& a, const Rule& b) {
        return a.text == b.text && a.tensor == b.tensor && a.valued == b.valued && a.shown == b.shown;
    }
    bool same(const RegisterArray& a, const RegisterArray& b) {
        return a.name == b.name && a.type == b.type && a.pack == b.pack && a.words == b.words && a.note == b.note;
    }
    bool same(const View& a, const View& b) {
        return a.space == b.space && a.memory == b.memory && same(a.axes, b.axes);
    }
    bool same(const ViewAxis& a, const ViewAxis& b) {
        return a.extent == b.extent && a.picked == b.picked && same(a.offset, b.offset);
    }
    bool same(const Access& a, const Access& b) { return same_statement(a, b); }

    bool same(const Statement& a, const Statement& b) {
        if (a.op.index() != b.op.index()) return false;
        return std::visit(
            [&](const auto& kind) { return same_statement(kind, std::get<std::decay_t<decltype(kind)>>(b.op)); }, a.op);
    }

    template <class Kind>
    bool same_statement(const Kind& a, const Kind& b) {
        const auto theirs = addresses([&](auto&& f) { fields_of(b, f); });
        bool equal = true;
        std::size_t i = 0;
        fields_of(a, [&](const char*, const auto& field) { equal = equal && same_as(field, theirs[i]), ++i; });
        return equal;
    }

    template <class Field>
    bool same_as(const Field& field, const void* other) {
        return same(field, *static_cast<const Field*>(other));
    }

    /// Nodes are matched one to one: a node already matched is equal to its partner and to nothing else.
    bool same(Ref a, Ref b) {
        if (a == nullptr || b == nullptr) return a == b;
        Ref& partner = slot(forward_, a);
        if (partner != nullptr || slot(backward_, b) != nullptr) return partner == b && slot(backward_, b) == a;
        if (a->type != b->type || a->shape != b->shape || a->op.index() != b->op.index()) return false;
        partner = b;
        slot(backward_, b) = a;
        return std::visit(
            [&](const auto& kind) { return same_op(kind, std::get<std::decay_t<decltype(kind)>>(b->op)); }, a->op);
    }

    template <class Kind>
    bool same_op(const Kind& a, const Kind& b) {
        const auto theirs = addresses([&](auto&& f) { Kind::fields(b, f); });
        bool equal = true;
        std::size_t i = 0;
        Kind::fields(a, [&](const char*, const auto& field) { equal = equal && same_as(field, theirs[i]), ++i; });
        return equal;
    }

    static Ref& slot(std::vector<Ref>& table, Ref node) {
        const auto id = static_cast<std::size_t>(node->id);
        if (id >= table.size()) table.resize(id + id / 2 + 16, nullptr);
        return table[id];
    }

    std::vector<Ref> forward_, backward_;
};

}  // namespace

bool equal(const Program& a, const Program& b) { return Comparison().same(a, b); }

}  // namespace tessera::ir
