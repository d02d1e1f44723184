#include "dsl/ir/print.hpp"

#include <cstring>

#include "dsl/ir/print_expression.hpp"

namespace tessera::ir {

namespace {

using detail::ExpressionPrinter;
using detail::extents_text;
using detail::Names;

const char* role_text(Role role) {
    switch (role) {
        case Role::input: return "input";
        case Role::output: return "output";
        case Role::inout: return "inout";
    }
    return "tensor";
}

std::string word_text(Element type, int pack) {
    return name_of(type) + (pack == 1 ? std::string() : "x" + std::to_string(pack));
}

/// One statement without notes; a loop without its body.
struct Line {
    const Names& names;
    ExpressionPrinter text;

    Line(const Names& n, std::size_t limit) : names(n), text(n, limit) {}

    std::string operator()(const For& s) {
        if (s.role >= 0) return "role " + names.role(s.role) + " {";
        if (s.when) {
            const auto* truth = s.end ? s.end->as<Cast>() : nullptr;
            return (s.warp ? "when by warps " : "when ") + (truth ? text(truth->value) : text(s.end) + " != 0") + " {";
        }
        std::string line = (s.unrolled    ? "unrolled for "
                            : s.each_warp ? "for each warp "
                                          : "for ") +
                           s.name + " in [" + text(s.begin) + ", " + text(s.end) + ")";
        const auto* step = s.step ? s.step->as<Constant>() : nullptr;
        if (!step || step->bits != 1) line += " step " + text(s.step);
        return line + " {";
    }
    std::string operator()(const Bind& s) {
        const std::string* name = names.bound(s.value);
        return (name ? *name : "null") + " = " + text.definition(s.value);
    }
    std::string operator()(const Store& s) {
        return "store " + text(s.value) + " to " + text.view(s.view) + detail::hint(s.cache);
    }
    std::string operator()(const Accumulate& s) { return "atomic add " + text(s.value) + " to " + text.view(s.view); }
    std::string operator()(const Copy& s) {
        const std::string width = s.per_thread.empty() ? "" : " by " + extents_text(s.per_thread);
        return (s.tensor ? "copy box " : "copy ") + text.view(s.from) + " to " + text.view(s.to) + width +
               counted(s.mbarriers, s.stage);
    }
    std::string operator()(const CopyVector& s) {
        return "copy " + access(s.from) + " to " + access(s.to) + counted(s.mbarriers, s.stage);
    }
    std::string operator()(const CopyBox& s) {
        std::string line =
            "copy box " + names.map(s.map) + place(s.from) + " to " + names.memory(Space::shared, s.tile);
        line += place(s.to) + " at " + text(s.offset) + " if " + text(s.predicate);
        return line + counted(s.mbarriers, s.stage);
    }
    std::string operator()(const WaitCopies& s) {
        if (s.mbarriers >= 0)
            return "wait for " + mbarrier(s.mbarriers, s.stage) + ", parity " + text(s.parity) +
                   (s.first_warp ? ", by the first warp" : "");
        return s.pending == 0 ? "wait for copies" : "wait for copies but " + std::to_string(s.pending) + " groups";
    }
    std::string operator()(const CommitCopies& s) {
        return s.mbarriers < 0 ? "close the group of copies" : "arrive at " + mbarrier(s.mbarriers, s.stage);
    }
    std::string operator()(const InitMbarriers& s) {
        return "start " + names.memory(Space::shared, s.mbarriers) +
               (s.arrivals == 1 ? "" : ", " + std::to_string(s.arrivals) + " arrivals a phase");
    }
    std::string operator()(const Arrive& s) { return "every warp arrives at " + mbarrier(s.mbarriers, s.stage); }
    std::string operator()(const GridSync&) { return "grid sync"; }
    std::string operator()(const KernelAheadWait&) { return "wait for the kernel ahead"; }
    std::string operator()(const Assign& s) { return names.variable(s.variable) + " = " + text(s.value); }
    std::string operator()(const Report& s) {
        return report(s.rule) + text.view(s.view) + " where " + text(s.bad) + ", value " + text(s.value);
    }
    std::string operator()(const Comment& s) { return "// " + s.text; }
    std::string operator()(const Declare& s) { return "declare " + names.array(s.array); }
    std::string operator()(const Let& s) { return "let " + names.local(s.local) + " = " + text(s.value); }
    std::string operator()(const Set& s) { return names.array(s.array) + "[" + text(s.index) + "] = " + text(s.value); }
    std::string operator()(const LoadVector& s) {
        std::string line = names.array(s.array) + "[" + text(s.index) + "] = load " + access(s.access);
        if (s.access.predicate || s.fill) line += " else " + text(s.fill);
        return line;
    }
    std::string operator()(const StoreVector& s) {
        std::string line = "store (";
        for (std::size_t i = 0; i < s.words.size(); ++i) line += (i ? ", " : "") + text(s.words[i]);
        return line + ") to " + access(s.access);
    }
    std::string operator()(const AtomicAdd& s) { return "atomic add " + text(s.value) + " to " + access(s.access); }
    std::string operator()(const ReportElement& s) {
        return report(s.rule) + "place " + text(s.place) + ", value " + text(s.value) + " if " + text(s.bad);
    }
    std::string operator()(const Barrier&) { return "barrier"; }
    std::string operator()(const MmaTile& s) {
        return "mma " + names.array(s.array) + "[" + list(s.into) + "] += " + list(s.a) + " * " + list(s.b);
    }
    std::string operator()(const WarpgroupMma& s) {
        const auto matrix = [&](int tile, Ref offset) {
            return names.memory(Space::shared, tile) + " at " + (offset ? text(offset) : "null");
        };
        return "start mma 64 x " + std::to_string(s.columns) + " " + names.array(s.array) + "[" + text(s.into) +
               ", rows " + std::to_string(s.rows_apart) +
               " apart] += " + (s.a.empty() ? matrix(s.a_tile, s.a_offset) : list(s.a)) + " * " +
               matrix(s.b_tile, s.b_offset);
    }
    std::string operator()(const MmaFence& s) { return "fence for mma: " + arrays(s.arrays); }
    std::string operator()(const MmaWait& s) { return "wait for mma: " + arrays(s.arrays); }
    std::string operator()(const ProxyFence&) { return "fence of stores for the copy engine and tensor cores"; }

    std::string list(const std::vector<Ref>& items) {
        std::string line = "(";
        for (std::size_t i = 0; i < items.size(); ++i) line += (i ? ", " : "") + text(items[i]);
        return line + ")";
    }
    std::string arrays(const std::vector<int>& ids) const {
        std::string line;
        for (std::size_t i = 0; i < ids.size(); ++i) line += (i ? ", " : "") + names.array(ids[i]);
        return line;
    }

    static std::string report(int rule) { return "report rule " + std::to_string(rule) + " at "; }

    /// "full[i + 1]"
    std::string mbarrier(int tile, Ref stage) {
        return names.memory(Space::shared, tile) + "[" + (stage ? text(stage) : "null") + "]";
    }
    std::string counted(int tile, Ref stage) { return tile < 0 ? "" : ", counted by " + mbarrier(tile, stage); }

    std::string place(const std::vector<Ref>& items) {
        std::string line = "[";
        for (std::size_t i = 0; i < items.size(); ++i) line += (i ? ", " : "") + text(items[i]);
        return line + "]";
    }

    std::string access(const Access& a) {
        std::string line = names.memory(a.space, a.memory) + place(a.coordinates);
        if (a.lanes != 1) line += " x" + std::to_string(a.lanes) + " along " + std::to_string(a.axis);
        line += " at " + text(a.offset);
        if (a.predicate) line += " if " + text(a.predicate);
        return line + detail::hint(a.cache);
    }
};

class ProgramPrinter {
public:
    explicit ProgramPrinter(const Program& program)
        : program_(program), names_(program), line_(names_, unlimited), text_(names_, unlimited) {}

    std::string run() {
        header();
        out_ += "{\n";
        body(program_.body, 1);
        return out_ + "}\n";
    }

private:
    static constexpr std::size_t unlimited = std::size_t{1} << 24;

    void end_line(const std::string& note, const Place& place) {
        const std::string where = print_place(place);
        if (!note.empty() || !where.empty()) out_ += "   // " + note;
        if (!note.empty() && !where.empty()) out_ += "   ";
        out_ += where + "\n";
    }

    std::string list(const std::vector<Ref>& items) {
        std::string text = "[";
        for (std::size_t i = 0; i < items.size(); ++i) text += (i ? ", " : "") + text_(items[i]);
        return text + "]";
    }

    void tensor(const TensorParam& t) {
        std::string extents, strides;
        for (std::size_t i = 0; i < t.axes.size(); ++i) {
            const Axis& axis = t.axes[i];
            const char* comma = i ? ", " : "";
            extents += comma + text_(axis.extent);
            strides += comma + text_(axis.stride);
            if (axis.inner != 1)
                strides += " of " + std::to_string(axis.inner) + " at " + std::to_string(axis.inner_stride);
        }
        out_ += std::string(role_text(t.role)) + " " + t.name + ": " + name_of(t.type) + " [" + extents +
                "] strides [" + strides + "] align " + std::to_string(t.align);
        end_line({}, t.place);
    }

    void shared(const SharedTile& t) {
        out_ += "shared " + t.name + ": " + print_type(t.type, t.shape);
        if (t.swizzle.bits != 0)
            out_ += " swizzle (bits " + std::to_string(t.swizzle.bits) + ", base " + std::to_string(t.swizzle.base) +
                    ", shift " + std::to_string(t.swizzle.shift) + ")";
        if (t.byte_offset >= 0) out_ += " at byte " + std::to_string(t.byte_offset);
        end_line({}, t.place);
    }

    void header() {
        const Program& p = program_;
        out_ += "program " + p.name + (p.stage == Stage::recorded ? ", recorded, " : ", lowered, ") +
                std::to_string(p.threads) + " threads" +
                (p.least_blocks > 0 ? ", at least " + std::to_string(p.least_blocks) + " blocks" : "");
        if (p.dependent_launch) out_ += ", dependent launch";
        if (p.cooperative) out_ += ", cooperative";
        if (p.shared_bytes != 0) out_ += ", " + std::to_string(p.shared_bytes) + " shared bytes";
        end_line({}, p.place);
        for (const TensorParam& t : p.tensors) tensor(t);
        for (const ScalarParam& s : p.scalars) {
            out_ += "scalar " + s.name + ": " + name_of(s.type);
            if (s.multiple_of != 1) out_ += ", a multiple of " + std::to_string(s.multiple_of);
            end_line({}, s.place);
        }
        for (const TensorMap& m : p.maps)
            out_ += "map " + m.name + " of " + names_.memory(Space::global, m.tensor) + ": boxes " +
                    extents_text(m.box) +
                    (m.swizzle > 0 ? " swizzled over " + std::to_string(m.swizzle) + " bytes" : std::string()) + "\n";
        for (const SharedTile& t : p.shared) shared(t);
        for (const Variable& v : p.variables) {
            out_ += "variable " + v.name + ": " + print_type(v.type, v.shape);
            end_line({}, v.place);
        }
        for (const WarpRole& r : p.roles) {
            out_ += "role " + r.name + ": warps " + std::to_string(r.first_warp) + " … " +
                    std::to_string(r.first_warp + r.warps - 1);
            if (r.registers > 0) out_ += ", " + std::to_string(r.registers) + " registers";
            end_line({}, r.place);
        }
        for (std::size_t i = 0; i < p.rules.size(); ++i) {
            out_ += "rule " + std::to_string(i) + " of " + names_.memory(Space::global, p.rules[i].tensor) + ": " +
                    p.rules[i].text;
            end_line({}, p.rules[i].place);
        }
        for (const RegisterArray& a : p.arrays) {
            out_ += "array " + a.name + ": " + word_text(a.type, a.pack) + " [" + std::to_string(a.words) + "]";
            end_line(a.note, {});
        }
        out_ += "grid " + list(p.grid) + "\n";
    }

    /// Element type and extents of what a statement gives, for the trailing note.
    std::string note(const Statement& s) const {
        if (const auto* bind = s.as<Bind>(); bind && bind->value)
            return print_type(bind->value->type, bind->value->shape);
        if (const auto* let = s.as<Let>(); let && let->value) return word_text(let->value->type, let->value->lanes());
        if (const auto* load = s.as<LoadVector>()) return memory_type(load->access);
        if (const auto* store = s.as<StoreVector>()) return memory_type(store->access);
        if (const auto* sum = s.as<AtomicAdd>()) return memory_type(sum->access);
        if (const auto* copy = s.as<CopyVector>()) return memory_type(copy->from);
        if (const auto* sum = s.as<Accumulate>(); sum && sum->value)
            return print_type(sum->value->type, sum->value->shape);
        if (const auto* store = s.as<Store>(); store && store->value)
            return print_type(store->value->type, store->value->shape);
        return {};
    }

    std::string memory_type(const Access& a) const {
        const auto i = static_cast<std::size_t>(a.memory);
        if (a.space == Space::global) return i < program_.tensors.size() ? name_of(program_.tensors[i].type) : "";
        return i < program_.shared.size() ? name_of(program_.shared[i].type) : "";
    }

    void body(const Body& statements, int depth) {
        for (const Statement& s : statements) {
            out_.append(4 * static_cast<std::size_t>(depth), ' ');
            out_ += std::visit(line_, s.op);
            if (s.as<Comment>())
                out_ += "\n";
            else
                end_line(note(s), s.place);
            if (const auto* loop = s.as<For>()) {
                body(loop->body, depth + 1);
                out_.append(4 * static_cast<std::size_t>(depth), ' ');
                out_ += "}\n";
            }
        }
    }

    const Program& program_;
    Names names_;
    Line line_;
    ExpressionPrinter text_;
    std::string out_;
};

}  // namespace

std::string print(const Program& program) { return ProgramPrinter(program).run(); }

std::string print(Ref expression, std::size_t limit) {
    const Names names;
    return ExpressionPrinter(names, limit)(expression);
}

std::string print(const Program& program, Ref expression, std::size_t limit) {
    const Names names(program);
    return ExpressionPrinter(names, limit).definition(expression);
}

std::string print_line(const Program& program, const Statement& statement, std::size_t limit) {
    const Names names(program);
    return std::visit(Line(names, limit), statement.op);
}

std::string print_type(Element type, const Shape& shape) {
    return name_of(type) + (shape.empty() ? std::string() : " " + extents_text(shape));
}

std::string print_place(const Place& place) {
    if (place.line == 0) return {};
    const char* slash = std::strrchr(place.file, '/');
    return std::string(slash ? slash + 1 : place.file) + ":" + std::to_string(place.line);
}

}  // namespace tessera::ir
