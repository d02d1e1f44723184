#include <bit>
#include <string_view>
#include <type_traits>

#include "dsl/ir/diagnosis.hpp"
#include "dsl/ir/tensor_core.hpp"
#include "dsl/ir/walk.hpp"

namespace tessera::ir::detail {

namespace {

/// One node under examination.
struct NodeRules {
    const Diagnosis& at;
    const Node& n;

    void require(bool holds, const char* rule, const char* why) const { at.require(holds, rule, &n, why); }
    void index_below(int index, std::size_t count, const char* why) const {
        require(index >= 0 && static_cast<std::size_t>(index) < count, "index-range", why);
    }
    void is(Element type, const char* why) const { require(n.type == type, "result-type", why); }
    void is_scalar() const { require(n.scalar(), "result-shape", "this kind of node has rank 0"); }
    void same_type(Ref a, const char* why = "the operand's type is not the node's") const {
        require(a->type == n.type, "operand-type", why);
    }
    void same_shape(Ref a) const {
        require(a->shape == n.shape, "operand-shape", "the operand's shape is not the node's");
    }

    // ---- both stages

    void operator()(const Constant& op) const {
        is_scalar();
        const int width = n.type == boolean ? 1 : bits_of(n.type);
        require(width == 64 || op.bits >> width == 0, "constant-bits",
                "the constant has bits above the width of its type");
    }
    void operator()(const Parameter& op) const {
        is_scalar();
        index_below(op.index, at.program.scalars.size(), "the program has no such scalar");
        is(at.program.scalars[op.index].type, "the parameter's type is not that of its scalar");
    }
    void operator()(const LoopIndex& op) const {
        is_scalar();
        index_below(op.loop, at.program.loops, "the program has no such loop");
    }
    void operator()(const Unary& op) const {
        same_type(op.value);
        same_shape(op.value);
        const Element t = n.type;
        const bool fits = op.op == UnaryOp::bit_not    ? is_integer(t) || t == boolean
                          : op.op == UnaryOp::rsqrt    ? t == f32 || t == f64
                          : op.op >= UnaryOp::exp      ? t == f32
                          : op.op == UnaryOp::popcount ? t == u32
                                                       : has_arithmetic(t) || (is_float(t) && t != ue8m0);
        require(fits, "operand-type", "the operation is not defined for this type");
    }
    void operator()(const Binary& op) const {
        same_shape(op.a);
        same_shape(op.b);
        const Element t = op.a->type;
        const bool shift = op.op == BinaryOp::shl || op.op == BinaryOp::shr;
        require(shift ? is_integer(op.b->type) : t == op.b->type, "operand-type", "the operands' types do not meet");
        require(fits(op.op, t), "operand-type", "the operation is not defined for this type");
        is(op.op >= BinaryOp::eq ? boolean : t, "the result's type does not follow from the operands");
        const auto* count = op.b->as<Constant>();
        require(!shift || !count || count->bits < static_cast<std::uint64_t>(bits_of(t)), "shift-count",
                "the shift is as wide as the type or wider");
    }
    void operator()(const Fma& op) const {
        for (Ref operand : {op.a, op.b, op.c}) same_type(operand), same_shape(operand);
        require(n.type == f32, "operand-type", "the operation is not defined for this type");
    }
    void operator()(const Lookup& op) const {
        require(op.index->type == e2m1, "operand-type", "a lookup's index is e2m1");
        require(n.type == e2m1 || n.type == e4m3 || n.type == u8, "operand-type",
                "the operation is not defined for this type");
        same_shape(op.index);
        const bool words = at.program.stage == Stage::lowered;
        const int each = words ? 32 / bits_of(n.type) : 1;
        require(!words || n.lanes() == 1 || n.lanes() == each, "result-shape",
                "a lowered lookup is of one code or of as many as fill a word of results");
        require(op.table.size() * static_cast<std::size_t>(each) == 8, "table-size", "a lookup's table has 8 entries");
        for (Ref entry : op.table) {
            same_type(entry);
            if (!words) same_shape(entry);
            require(!words || entry->lanes() == each, "operand-shape", "a lowered table is packed in words of 32 bits");
        }
        if (op.signs == nullptr) return;
        require(op.signs->type == boolean && n.type != u8, "operand-type", "signs are boolean, and u8 has none");
        require(words ? op.signs->scalar() : op.signs->shape == n.shape, "operand-shape",
                "signs have another shape than the result");
    }
    void operator()(const Select& op) const {
        require(op.condition->type == boolean, "operand-type", "the condition is not boolean");
        same_shape(op.condition);
        for (Ref side : {op.a, op.b}) same_type(side), same_shape(side);
    }
    void operator()(const Cast& op) const {
        same_shape(op.value);
        require(!op.bounded || (n.type == e2m1 && is_float(op.value->type)), "operand-type",
                "only floats become e2m1 by a bounded cast");
    }
    void operator()(const Bitcast& op) const {
        const bool words = at.program.stage == Stage::lowered;
        if (!words) same_shape(op.value);
        require(bits_of(op.value->type) * (words ? op.value->lanes() : 1) == bits_of(n.type) * (words ? n.lanes() : 1),
                "operand-type", "a bitcast keeps the width");
    }

    // ---- recorded

    void operator()(const BlockIndex& op) const {
        is_scalar();
        is(i64, "a block index is i64");
        index_below(op.axis, at.program.grid.size(), "the grid has no such axis");
    }
    void operator()(const Coordinate& op) const {
        is(i64, "a coordinate is i64");
        require(op.axis >= 0 && op.axis < n.shape.rank(), "axis", "the tile has no such axis");
    }
    void operator()(const Load& op) const;
    void operator()(const Reduce& op) const {
        same_type(op.value);
        const Shape& from = op.value->shape;
        require(op.axis >= 0 && op.axis < from.rank(), "axis", "the tile has no such axis");
        Shape reduced = from;
        reduced[op.axis] = 1;
        require(n.shape == reduced, "result-shape", "the reduced axis has extent 1 and the others stay");
        const auto* product = op.value->as<Binary>();
        require(op.op != ReduceOp::dot || (product && product->op == BinaryOp::mul), "operand-type",
                "a dot is the sum of a product");
        require(fits(op.op, n.type), "operand-type", "the reduction is not defined for this type");
    }
    void operator()(const Least& op) const {
        same_type(op.value);
        const Shape& from = op.value->shape;
        require(op.axis >= 0 && op.axis < from.rank(), "axis", "the tile has no such axis");
        require(op.first >= 0 && op.first < op.count && op.count <= from[op.axis] && op.count <= Least::most,
                "rank-range", "ranks are below the axis' extent and at most 32");
        Shape kept = from;
        kept[op.axis] = static_cast<std::int64_t>(std::bit_ceil(static_cast<unsigned>(op.count - op.first)));
        require(n.shape == kept, "result-shape", "the axis has room for the ranks kept and the others stay");
        require(is_integer(n.type) && bits_of(n.type) >= 32, "operand-type",
                "the operation is not defined for this type");
    }
    void operator()(const Scan& op) const {
        same_type(op.value), same_shape(op.value);
        require(op.axis >= 0 && op.axis < n.shape.rank(), "axis", "the tile has no such axis");
        require(n.type == f32 || (is_integer(n.type) && bits_of(n.type) >= 32), "operand-type",
                "the operation is not defined for this type");
    }
    void operator()(const Broadcast& op) const {
        same_type(op.value);
        const Shape& from = op.value->shape;
        require(from.empty() || from.rank() == n.shape.rank(), "operand-shape",
                "a broadcast keeps the rank, or starts from rank 0");
        for (int i = 0; i < from.rank(); ++i)
            require(from[i] == n.shape[i] || from[i] == 1, "operand-shape", "a broadcast grows extents of 1 only");
    }
    void operator()(const Reshape& op) const {
        same_type(op.value);
        require(op.value->shape.count() == n.shape.count(), "result-shape", "a reshape keeps the number of elements");
    }
    void operator()(const Permute& op) const {
        same_type(op.value);
        const Shape& from = op.value->shape;
        const int rank = from.rank();
        require(static_cast<int>(op.order.size()) == rank && n.shape.rank() == rank, "axis",
                "the order names every axis once");
        unsigned seen = 0;
        for (int i = 0; i < rank; ++i) {
            const int axis = op.order[i];
            require(axis >= 0 && axis < rank && (seen >> axis & 1u) == 0, "axis", "the order names every axis once");
            seen |= 1u << axis;
            require(n.shape[i] == from[axis], "result-shape", "a permuted extent is not that of its axis");
        }
    }
    void operator()(const Convert& op) const { same_type(op.value), same_shape(op.value); }
    void operator()(const VariableRead& op) const {
        index_below(op.variable, at.program.variables.size(), "the program has no such variable");
        const Variable& v = at.program.variables[op.variable];
        is(v.type, "the type is not the variable's");
        require(n.shape == v.shape, "result-shape", "the shape is not the variable's");
    }

    void operator()(const Mma& op) const {
        const TensorCoreInstruction* row = tensor_core_instruction(op.a->type);
        require(row && op.b->type == op.a->type && op.c->type == f32, "operand-type",
                "operands of a product have one type that tensor cores multiply, and it is added to f32");
        is(f32, "a product is f32");
        for (Ref tile : {op.a, op.b}) require(tile->shape.rank() == 2, "operand-shape", "operands have two axes");
        require(op.a->shape[1] == op.b->shape[1] && op.a->shape[1] % row->depth == 0, "operand-shape",
                "operands have one depth, in multiples of the instruction's");
        const Shape result{op.a->shape[0], op.b->shape[0]};
        require(n.shape == result && op.c->shape == result && result[0] % mma_rows == 0 && result[1] % mma_columns == 0,
                "result-shape", "a product has the rows of both, in multiples of the instruction's");
        require(op.warps >= 0 && (op.warps & (op.warps - 1)) == 0, "index-range",
                "the warps along M are a power of two, or 0");
        require(op.shared_b || !op.shared_a, "in-place", "tensor cores that read a in place read b so, too");
        require(!op.shared_b || result[0] % warpgroup_rows == 0, "result-shape",
                "four warps that read shared memory have 64 rows");
        if (op.shared_a) in_place(op.a);
        if (op.shared_b) in_place(op.b);
    }
    void in_place(Ref operand) const {
        while (operand->as<Reshape>() || operand->as<Permute>())
            for_each_operand(*operand, [&](Ref inner) { operand = inner; });
        const auto* load = operand->as<Load>();
        require(load && load->view.space == Space::shared &&
                    fits_tensor_cores(at.program.shared[static_cast<std::size_t>(load->view.memory)]),
                "in-place", "what tensor cores read in place is loaded from a shared tile that they can read");
    }

    // ---- lowered

    void operator()(const ThreadIndex&) const { is_scalar(), is(i32, "a thread index is i32"); }
    void operator()(const LinearBlock&) const { is_scalar(), is(i64, "the linear block index is i64"); }
    void operator()(const Local& op) const {
        index_below(op.local, at.program.locals.size(), "the program has no such local");
    }
    void operator()(const Register& op) const {
        index_below(op.array, at.program.arrays.size(), "the program has no such register array");
        const RegisterArray& array = at.program.arrays[op.array];
        is(array.type, "the type is not the register array's");
        require(n.lanes() == array.pack, "result-shape", "the lanes are not the register array's");
    }
    void operator()(const Lane& op) const {
        is_scalar();
        same_type(op.value);
        require(op.value->shape.rank() == 1, "operand-shape", "a lane is taken of a packed word");
        index_below(op.lane, static_cast<std::size_t>(op.value->shape[0]), "the word has no such lane");
    }
    void operator()(const Pack& op) const {
        require(n.shape.rank() == 1 && n.lanes() == static_cast<int>(op.elements.size()), "result-shape",
                "a packed word has a lane for each element");
        for (Ref element : op.elements) {
            same_type(element);
            require(element->scalar(), "operand-shape", "a packed word is made of rank-0 values");
        }
    }
    void operator()(const Shuffle& op) const {
        same_type(op.value), same_shape(op.value);
        require(op.mask >= 1 && op.mask <= 31, "index-range", "a shuffle's mask is from 1 to 31");
    }
    void operator()(const Match& op) const {
        same_shape(op.value);
        is(u32, "a match is u32, a bit a lane");
        const bool recorded = at.program.stage == Stage::recorded;
        require(recorded ? op.axis >= 0 && op.axis < n.shape.rank() && n.shape[op.axis] == 32 : n.scalar(), "axis",
                "the axis has the 32 elements that the lanes of a warp hold");
        require(is_integer(op.value->type) && bits_of(op.value->type) >= 32, "operand-type",
                "the operation is not defined for this type");
    }
    void operator()(const WarpReduce& op) const {
        is_scalar();
        same_type(op.value);
        if (at.program.stage == Stage::recorded) {
            require(n.type == boolean && (op.op == ReduceOp::max || op.op == ReduceOp::min), "operand-type",
                    "a warp votes on a mask: whether any, or all, of it holds");
            return;
        }
        same_shape(op.value);
        require((n.type == i32 || n.type == u32 || n.type == boolean) && fits(op.op, n.type), "operand-type",
                "the reduction is not defined for this type");
    }

private:
    static bool fits(ReduceOp op, Element t) {
        if (op == ReduceOp::bit_or) return is_integer(t);
        if (op == ReduceOp::dot) return t == f32;
        return has_arithmetic(t) || (t == boolean && op != ReduceOp::sum);
    }
    static bool fits(BinaryOp op, Element t) {
        switch (op) {
            case BinaryOp::div_bounded: return t == f32;
            case BinaryOp::max_magnitude: return t == f16 || t == bf16;
            case BinaryOp::min_nan:
            case BinaryOp::max_nan: return t == f16 || t == bf16 || t == f32;
            case BinaryOp::mod:
            case BinaryOp::shl:
            case BinaryOp::shr: return is_integer(t);
            case BinaryOp::bit_and:
            case BinaryOp::bit_or:
            case BinaryOp::bit_xor: return is_integer(t) || t == boolean;
            case BinaryOp::eq:
            case BinaryOp::ne: return has_arithmetic(t) || t == boolean;
            default: return has_arithmetic(t);
        }
    }
};

template <class Kind>
constexpr bool only_recorded =
    std::is_same_v<Kind, BlockIndex> || std::is_same_v<Kind, Coordinate> || std::is_same_v<Kind, Load> ||
    std::is_same_v<Kind, Reduce> || std::is_same_v<Kind, Broadcast> || std::is_same_v<Kind, Reshape> ||
    std::is_same_v<Kind, Permute> || std::is_same_v<Kind, Convert> || std::is_same_v<Kind, VariableRead> ||
    std::is_same_v<Kind, Least> || std::is_same_v<Kind, Mma> || std::is_same_v<Kind, Scan>;
template <class Kind>
constexpr bool only_lowered = std::is_same_v<Kind, ThreadIndex> || std::is_same_v<Kind, LinearBlock> ||
                              std::is_same_v<Kind, Local> || std::is_same_v<Kind, Register> ||
                              std::is_same_v<Kind, Lane> || std::is_same_v<Kind, Pack> || std::is_same_v<Kind, Shuffle>;

bool fits_stage(const Node& n, Stage stage) {
    return std::visit(
        [&](const auto& op) {
            using Kind = std::decay_t<decltype(op)>;
            return stage == Stage::recorded ? !only_lowered<Kind> : !only_recorded<Kind>;
        },
        n.op);
}

/// for_each_operand passes null operands over; none is allowed but a lookup's signs.
bool complete(const Node& n) {
    bool all = true;
    std::string_view optional;
    auto look = [&](const char* name, const auto& field) {
        using Field = std::decay_t<decltype(field)>;
        if (name == optional) return;
        if constexpr (std::is_same_v<Field, Ref>) all = all && field != nullptr;
        if constexpr (std::is_same_v<Field, std::vector<Ref>>)
            for (Ref ref : field) all = all && ref != nullptr;
        if constexpr (std::is_same_v<Field, View>)
            for (const ViewAxis& axis : field.axes) all = all && axis.offset != nullptr;
    };
    std::visit(
        [&](const auto& op) {
            using Kind = std::decay_t<decltype(op)>;
            if constexpr (std::is_same_v<Kind, Lookup>) optional = "signs";
            Kind::fields(op, look);
        },
        n.op);
    return all;
}

void verify_extents(const Diagnosis& at, const Node& n) {
    for (std::int64_t extent : n.shape) at.require(extent >= 1, "extent", &n, "an extent is below 1");
    if (at.program.stage == Stage::recorded) return;
    at.require(n.shape.rank() <= 1, "word-width", &n, "a thread holds scalars and packed words");
    at.require(n.scalar() || n.shape[0] * register_bits_of(n.type) <= 32, "word-width", &n,
               "a packed word is wider than 32 bits");
}

}  // namespace

void NodeRules::operator()(const Load& op) const {
    const Shape tile = verify_view(at, op.view, &n);
    const Element type = op.view.space == Space::global ? at.program.tensors[op.view.memory].type
                                                        : at.program.shared[op.view.memory].type;
    is(type, "the type is not the memory's");
    require(n.shape == tile, "result-shape", "the shape is not that of the view's axes");
    require(op.fill->type == type && op.fill->scalar(), "fill", "the fill is a rank-0 value of the memory's type");
    if (op.view.space == Space::global)
        require(at.program.tensors[op.view.memory].role != Role::output, "role", "an output tensor is loaded from");
    require(op.lanes >= 0 && (op.lanes & (op.lanes - 1)) == 0, "per-thread", "lanes are a power of two");
    require(op.cache == Cache::normal || op.view.space == Space::global, "cache", "shared memory is no cache");
    if (op.per_thread.empty()) return;
    require(op.per_thread.rank() == n.shape.rank(), "per-thread", "there is a number for each axis");
    for (int i = 0; i < n.shape.rank(); ++i)
        require(op.per_thread[i] >= 1 && n.shape[i] % op.per_thread[i] == 0, "per-thread",
                "the numbers divide the tile's extents");
}

Shape verify_view(const Diagnosis& at, const View& view, Ref node) {
    const bool global = view.space == Space::global;
    const std::size_t count = global ? at.program.tensors.size() : at.program.shared.size();
    at.require(view.memory >= 0 && static_cast<std::size_t>(view.memory) < count, "index-range", node,
               "the program has no such memory");
    const int rank = global ? static_cast<int>(at.program.tensors[view.memory].axes.size())
                            : at.program.shared[view.memory].shape.rank();
    at.require(static_cast<int>(view.axes.size()) == rank, "view", node,
               "a view has an axis for each axis of its memory");
    Shape tile;
    for (const ViewAxis& axis : view.axes) {
        at.require(axis.extent >= 1 && (!axis.picked || axis.extent == 1), "view", node,
                   "extents are at least 1, and 1 where an axis is picked");
        at.require(axis.offset != nullptr, "operand-missing", node, "an offset is missing");
        const Node& offset = *axis.offset;
        const bool indices = !axis.picked && offset.shape.rank() == 1 && offset.shape[0] == axis.extent &&
                             (offset.type == i32 || offset.type == i64);
        at.require(indices || (offset.type == i64 && offset.scalar()), "offset-type", node,
                   "a view's offsets are i64 of rank 0, or tiles of indices, one for each position");
        if (!axis.picked) tile.push_back(axis.extent);
    }
    return tile;
}

void verify_node(const Diagnosis& at, const Node& n) {
    at.require(fits_stage(n, at.program.stage), "stage", &n,
               "this kind of node does not belong to the program's stage");
    at.require(complete(n), "operand-missing", &n, "an operand is missing");
    for_each_operand(
        n, [&](Ref operand) { at.require(operand->id < n.id, "node-id", &n, "an operand is younger than its user"); });
    if (at.program.stage == Stage::recorded)
        for_each_operand(n, [&](Ref operand) {
            at.require(!is_vote(operand) || is_vote(&n), "vote", &n, "a warp's vote is used as another value");
        });
    verify_extents(at, n);
    std::visit(NodeRules{at, n}, n.op);
}

}  // namespace tessera::ir::detail
