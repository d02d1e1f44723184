#include "dsl/emit/statement.hpp"

#include <fmt/format.h>

#include "dsl/base/error.hpp"
#include "dsl/emit/c_types.hpp"
#include "dsl/ir/report.hpp"

namespace tessera::emit {

namespace {

/// Whether it is the constant 1 of an integer type.
bool is_one(ir::Ref node) {
    const auto* constant = node->as<ir::Constant>();
    return constant != nullptr && constant->bits == 1;
}

}  // namespace

const ir::RegisterArray& Statements::array(int id) const {
    require_internal(id >= 0 && id < static_cast<int>(program_.arrays.size()), "a register array that does not exist");
    return program_.arrays[static_cast<std::size_t>(id)];
}

namespace {

/// What is decided by a named truth, or null.
ir::Ref condition_of(const ir::For& loop) {
    const auto* truth = loop.when ? loop.end->as<ir::Cast>() : nullptr;
    return truth != nullptr && truth->value->type == boolean ? truth->value : nullptr;
}

/// Whether `second`, right behind `first`, is its other case: what both set is then set on every way past them, which
/// the compiler would not see by itself.
bool is_otherwise(const ir::For& first, const ir::For& second) {
    const ir::Ref is = condition_of(first), is_not = condition_of(second);
    const auto* opposite = is_not != nullptr ? is_not->as<ir::Unary>() : nullptr;
    if (is == nullptr || opposite == nullptr || opposite->op != ir::UnaryOp::bit_not) return false;
    const auto *local = is->as<ir::Local>(), *same = opposite->value->as<ir::Local>();
    return local != nullptr && same != nullptr && local->local == same->local;
}

}  // namespace

/// `array[index + offset]`
std::string Statements::array_word(int id, ir::Ref index, int offset) {
    array(id);
    return names_.arrays[static_cast<std::size_t>(id)] + "[" + index_plus(expressions_, index, offset).text + "]";
}

void Statements::print(const ir::Body& body) {
    const ir::For* before = nullptr;
    for (const ir::Statement& statement : body) {
        const auto* loop = statement.as<ir::For>();
        writer_.at(statement.place);
        if (before != nullptr && loop != nullptr && is_otherwise(*before, *loop)) {
            writer_.open("else");
            print(loop->body);
            writer_.close("when");
        } else
            std::visit([&](const auto& op) { print(op); }, statement.op);
        before = loop;
    }
}

template <class Recorded>
void Statements::print(const Recorded&) {
    throw InternalError("a statement of the recorded stage cannot be printed as CUDA");
}

void Statements::print(const ir::For& loop) {
    if (loop.role >= 0) return print_role(loop);
    const std::string& name = names_.loops[static_cast<std::size_t>(loop.loop)];
    const auto bound = [&](ir::Ref node) {
        const Text text = expressions_.scalar(node);
        return text.literal ? text.relax() : text;
    };
    if (loop.when) {
        const auto* truth = loop.end->as<ir::Cast>();
        const bool plain = truth != nullptr && truth->value->type == boolean;
        writer_.open("if (" +
                     (plain ? expressions_.scalar(truth->value).text
                            : within(expressions_.scalar(loop.end), Precedence::equality) + " != 0") +
                     ")");
        print(loop.body);
        return writer_.close("when");
    }
    const std::string step = is_one(loop.step) ? "++" + name : name + " += " + bound(loop.step).text;
    writer_.line(loop.unrolled ? "#pragma unroll" : "#pragma unroll 1");
    writer_.open(fmt::format("for ({} {} = {}; {} < {}; {})", loop.unrolled ? "int" : "long long", name,
                             bound(loop.begin).text, name, within(bound(loop.end), Precedence::sum), step));
    const bool alone = each_warp_;
    each_warp_ = alone || loop.each_warp;
    print(loop.body);
    each_warp_ = alone;
    writer_.close(name);
}

void Statements::print(const ir::Comment& comment) { writer_.comment(comment.text); }

void Statements::print(const ir::Declare& declare) {
    const ir::RegisterArray& a = array(declare.array);
    writer_.line(fmt::format("{} {}[{}];", word_type(a.type, a.pack),
                             names_.arrays[static_cast<std::size_t>(declare.array)], a.words),
                 a.note);
}

void Statements::print(const ir::Let& let) {
    require_internal(let.local >= 0 && let.local < static_cast<int>(names_.locals.size()), "a local without a name");
    const bool packed = let.value->lanes() > 1;
    const Text value = packed ? expressions_.word(let.value) : expressions_.scalar(let.value).relax();
    writer_.line(fmt::format("const {} {} = {};", packed ? "unsigned" : scalar_type(let.value->type),
                             names_.locals[static_cast<std::size_t>(let.local)], value.text));
}

void Statements::print(const ir::Set& set) {
    writer_.line(array_word(set.array, set.index, 0) + " = " + expressions_.word(set.value).text + ";");
}

Element Statements::element_of(const ir::Access& access) const {
    const bool global = access.space == ir::Space::global;
    const std::size_t count = global ? program_.tensors.size() : program_.shared.size();
    const auto index = static_cast<std::size_t>(access.memory);
    require_internal(access.memory >= 0 && index < count, "an access to memory that does not exist");
    return global ? program_.tensors[index].type : program_.shared[index].type;
}

namespace {

/// Whether an offset is plainly a multiple of two.
bool is_even(const ir::Node& n) {
    if (const auto* constant = n.as<ir::Constant>()) return constant->bits % 2 == 0;
    if (const auto* widened = n.as<ir::Cast>()) return is_integer(widened->value->type) && is_even(*widened->value);
    const auto* op = n.as<ir::Binary>();
    if (op == nullptr) return false;
    if (op->op == ir::BinaryOp::mul) return is_even(*op->a) || is_even(*op->b);
    return op->op == ir::BinaryOp::add && is_even(*op->a) && is_even(*op->b);
}

}  // namespace

/// offset / 2. Of a sum each part by itself: what differs between accesses then remains a constant beside the address.
Text Statements::halved(const ir::Ref& offset) {
    const auto half = [&](const ir::Ref& part, bool relaxed) -> Text {
        if (const auto* constant = part->as<ir::Constant>()) return {std::to_string(constant->bits / 2)};
        const Text text = expressions_.scalar(part);
        return infix(relaxed ? text.relax() : text, ">>", {"1"}, Precedence::shift);
    };
    const auto* sum = offset->as<ir::Binary>();
    if (sum == nullptr || sum->op != ir::BinaryOp::add || !is_even(*sum->b)) return half(offset, true);
    return infix(half(sum->a, false), "+", half(sum->b, true), Precedence::sum);
}

/// `tensor + offset`. Packed elements are counted in bytes; their offsets are multiples of what shares them, so that
/// the shift is exact.
Text Statements::address(const ir::Access& access) {
    const auto index = static_cast<std::size_t>(access.memory);
    const std::string& base = access.space == ir::Space::global ? names_.tensors[index] : names_.shared[index];
    const Element type = element_of(access);
    const Text wide = expressions_.scalar(access.offset);
    Text offset = wide.relax();
    if (offset.text == "0") return {base};
    const auto* constant = access.offset->as<ir::Constant>();
    if (packed_elements_of(type) > 1 && constant != nullptr)
        offset = {std::to_string(static_cast<std::int64_t>(constant->bits) * bits_of(type) / 8)};
    else if (type == e2m1)
        offset = halved(access.offset);
    else if (type == e5m6)
        offset = infix(infix(wide, ">>", {"3"}, Precedence::shift), "*", {"12"}, Precedence::product);
    return infix({base}, "+", offset, Precedence::sum, true);
}

/// The function that moves `bytes` of the access at once.
MemoryHelper Statements::helper_for(const ir::Access& access, bool load, int bytes, const char* word) {
    const bool shared = access.space == ir::Space::shared;
    const int widest = shared ? 16 : target_.vector_bytes();
    require_internal(bytes > 0 && (bytes & (bytes - 1)) == 0 && bytes <= widest,
                     "an access of a width that the target does not have");
    AccessKind kind = shared ? AccessKind::store_shared : AccessKind::store;
    if (load && shared) kind = AccessKind::load_shared;
    if (load && !shared) {
        // Reads of the read-only path may be moved to either side of the wait for the kernel ahead.
        const bool constant = program_.tensors[static_cast<std::size_t>(access.memory)].role == ir::Role::input &&
                              !program_.dependent_launch;
        kind = constant ? AccessKind::load_read_only : AccessKind::load;
    }
    return {kind, access.predicate != nullptr, bytes, word_type_of(word), access.cache};
}

/// `load_16_if(in, a, b, c, d, x + offset, fill);`
std::string Statements::access_call(const ir::Access& access, const MemoryHelper& helper, const Text& address,
                                    const std::vector<Text>& words, const Text& fill) {
    require_internal(static_cast<int>(words.size()) == helper.words(), "an access with the wrong number of words");
    const bool load = helper.access <= AccessKind::load_shared;
    std::string out = helpers_.use(helper) + "(";
    if (helper.predicated) out += expressions_.scalar(access.predicate).text + ", ";
    if (!load) out += address.text;
    const char* separator = load ? "" : ", ";
    for (const Text& word : words) out += separator + word.text, separator = ", ";
    if (load) out += ", " + address.text;
    if (load && helper.predicated) out += ", " + fill.text;
    return out + ");";
}

void Statements::print(const ir::LoadVector& load) {
    const ir::RegisterArray& a = array(load.array);
    const Element type = element_of(load.access);
    require_internal(bits_of(a.type) == bits_of(type) && load.access.lanes % a.pack == 0,
                     "a load into registers that do not fit its elements");
    if (type == e5m6) return load_groups(load);
    const int bytes = load.access.lanes * bits_of(type) / 8;
    const MemoryHelper helper = helper_for(load.access, true, bytes, word_type(a.type, a.pack));
    const int words = load.access.lanes / a.pack;
    if (words > 1 && a.pack * bits_of(type) < 32) return load_apart(load, helper);
    std::vector<Text> targets;
    for (int i = 0; i < words; ++i) targets.push_back({array_word(load.array, load.index, i)});
    Text fill;
    if (load.access.predicate != nullptr) {
        const std::vector<Piece> pieces(static_cast<std::size_t>(a.pack), Piece{load.fill, 0});
        fill = bits_of(type) < 32 ? expressions_.pack(type, pieces) : expressions_.scalar(load.fill);
    }
    writer_.line(access_call(load.access, helper, address(load.access), targets, fill));
}

/// Registers that hold less than memory's words do: the words are loaded, then shifted apart.
void Statements::load_apart(const ir::LoadVector& load, const MemoryHelper& helper) {
    const Element type = element_of(load.access);
    const int bits = bits_of(type), pack = array(load.array).pack;
    std::vector<Text> words;
    for (int i = 0; i < helper.words(); ++i) words.push_back({fmt::format("{}[{}]", Names::words, i)});
    Text fill;
    if (load.access.predicate != nullptr) {
        const std::vector<Piece> pieces(static_cast<std::size_t>(32 / bits), Piece{load.fill, 0});
        fill = expressions_.pack(type, pieces);
    }
    writer_.open("");
    writer_.line(fmt::format("unsigned {}[{}];", Names::words, helper.words()));
    writer_.line(access_call(load.access, helper, address(load.access), words, fill));
    for (int i = 0; i < load.access.lanes / pack; ++i) {
        const int first = i * pack * bits;
        const Text word = words[static_cast<std::size_t>(first / 32)];
        const Text part = first % 32 == 0 ? word : infix(word, ">>", {std::to_string(first % 32)}, Precedence::shift);
        writer_.line(array_word(load.array, load.index, i) + " = " + part.text + ";");
    }
    writer_.close();
}

/// The stored elements as whole registers.
std::vector<Text> Statements::store_words(const ir::StoreVector& store, Element type) {
    const int bits = register_bits_of(type);
    std::vector<Text> words;
    bool whole = bits >= 32 || store.words.size() == 1;
    for (const ir::Ref word : store.words) whole = whole || word->lanes() * bits == 32;
    if (whole) {
        for (const ir::Ref word : store.words) words.push_back(expressions_.word(word));
        return words;
    }
    std::vector<Piece> pieces;
    for (const ir::Ref word : store.words)
        for (int lane = 0; lane < word->lanes(); ++lane) pieces.push_back({word, lane});
    const auto step = static_cast<std::size_t>(32 / bits);
    for (std::size_t first = 0; first < pieces.size(); first += step)
        words.push_back(
            expressions_.pack(type, std::span(pieces).subspan(first, std::min(step, pieces.size() - first))));
    return words;
}

void Statements::print(const ir::StoreVector& store) {
    require_internal(!store.words.empty(), "a store of no words");
    const Element type = element_of(store.access);
    require_internal(bits_of(store.words[0]->type) == bits_of(type), "a store of elements of another width");
    if (type == e5m6) return store_groups(store);
    const int bytes = store.access.lanes * bits_of(type) / 8;
    const MemoryHelper helper =
        helper_for(store.access, false, bytes, word_type(store.words[0]->type, store.words[0]->lanes()));
    writer_.line(access_call(store.access, helper, address(store.access), store_words(store, type), {}));
}

/// Signed numbers are added as unsigned ones: the bits are the same.
void Statements::print(const ir::AtomicAdd& add) {
    const Element type = element_of(add.access);
    require_internal(is_integer(type) && bits_of(type) >= 32, "an atomic add of a type that has none");
    const AccessKind kind = add.access.space == ir::Space::global ? AccessKind::add : AccessKind::add_shared;
    const MemoryHelper helper{kind, add.access.predicate != nullptr, bits_of(type) / 8,
                              word_type_of(word_type(type, 1))};
    writer_.line(access_call(add.access, helper, address(add.access), {expressions_.word(add.value)}, {}));
}

void Statements::print(const ir::MmaTile& product) {
    const Element type = product.a[0]->type;
    std::string line = helpers_.use(fmt::format("mma_{}", name_of(type))) + "(";
    for (ir::Ref index : product.into) line += array_word(product.array, index, 0) + ", ";
    for (ir::Ref word : product.a) line += expressions_.word(word).relax().text + ", ";
    line += expressions_.word(product.b[0]).relax().text + ", " + expressions_.word(product.b[1]).relax().text;
    writer_.line(line + ");");
}

void Statements::print(const ir::GridSync&) { writer_.line(helpers_.use("grid_sync") + "();"); }

/// Whoever comes next may start only now: what it reads ahead of its own wait, the kernel ahead of this one has done.
void Statements::print(const ir::KernelAheadWait&) {
    writer_.line("asm volatile(\"griddepcontrol.wait;\" ::: \"memory\");",
                 "for the kernel ahead, where launched early");
    writer_.line("asm volatile(\"griddepcontrol.launch_dependents;\");");
}

void Statements::print(const ir::ReportElement& report) {
    require_internal(report.rule >= 0 && static_cast<std::size_t>(report.rule) < program_.rules.size(),
                     "a report by a rule that does not exist");
    Text place = expressions_.scalar(report.place).relax();
    if (report.rule > 0)
        place = infix({fmt::format("{:#x}ull", static_cast<std::uint64_t>(report.rule) << ir::rule_shift)}, "|", place,
                      Precedence::bit_or);
    writer_.line(fmt::format("if ({}) {}({}, {}, {});", expressions_.scalar(report.bad).text,
                             helpers_.use("report_first"), Names::record, place.text,
                             expressions_.scalar(report.value).relax().text));
}

}  // namespace tessera::emit
