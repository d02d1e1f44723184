#include <algorithm>
#include <numeric>

#include "dsl/base/error.hpp"
#include "dsl/ir/walk.hpp"
#include "dsl/lower/tile_code.hpp"

namespace tessera::lower {

namespace {

bool is_half(Element t) { return t == f16 || t == bf16; }

/// Operations that act on both halves of a word at once, with the bits that each would get alone.
bool acts_on_words(const ir::Node& n) {
    if (!is_half(n.type)) return false;
    if (const auto* u = n.as<ir::Unary>()) return u->op == ir::UnaryOp::abs || u->op == ir::UnaryOp::neg;
    if (const auto* b = n.as<ir::Binary>())
        return b->op == ir::BinaryOp::max || b->op == ir::BinaryOp::min || b->op == ir::BinaryOp::add ||
               b->op == ir::BinaryOp::sub || b->op == ir::BinaryOp::mul || b->op == ir::BinaryOp::max_nan ||
               b->op == ir::BinaryOp::min_nan;
    return false;
}

/// Conversions that lose nothing and are made for two neighbours at once.
bool turns_in_pairs(Element from, Element to) {
    return (from == e2m1 && is_half(to)) || (to == f16 && (from == e4m3 || from == e5m2));
}

/// Two neighbours of a word, converted together: as good as a word as it lies.
bool is_converted_pair(const ir::Pack& pack) {
    if (pack.elements.size() != 2) return false;
    const ir::Lane* lanes[2];
    for (std::size_t i = 0; i < 2; ++i) {
        const auto* cast = pack.elements[i]->as<ir::Cast>();
        if (!cast || !turns_in_pairs(cast->value->type, pack.elements[i]->type)) return false;
        lanes[i] = cast->value->as<ir::Lane>();
        if (!lanes[i]) return false;
    }
    return lanes[0]->value == lanes[1]->value && lanes[0]->lane % 2 == 0 && lanes[1]->lane == lanes[0]->lane + 1;
}

/// One value in every lane.
bool is_splat(const ir::Pack& pack) {
    return std::all_of(pack.elements.begin(), pack.elements.end(), [&](Ref e) { return e == pack.elements.front(); });
}

/// A lookup's table in words; entry(tile) gives one element.
template <class Entry>
std::vector<Ref> table_words(Expressions& e, Ref node, Entry&& entry) {
    const auto each = static_cast<std::size_t>(32 / bits_of(node->type));
    std::vector<Ref> words, elements;
    for (Ref tile : node->as<ir::Lookup>()->table) {
        elements.push_back(entry(tile));
        if (elements.size() < each) continue;
        words.push_back(e.make(node->type, {static_cast<std::int64_t>(each)}, ir::Pack{elements}));
        elements.clear();
    }
    return words;
}

}  // namespace

const RegisterTile* TileCode::tile_of(Ref user, Ref node) const {
    if (const Plan::Conversion* c = plan_.conversion(user, node)) {
        const auto it = converted_.find(c);
        require_internal(it != converted_.end(), "a converted tile is read before its conversion");
        return &it->second;
    }
    const auto it = tiles_.find(node->id);
    return it == tiles_.end() ? nullptr : &it->second;
}

/// A number of the recorded program as a lowered expression.
Ref TileCode::scalar(Ref node) {
    if (const auto* c = node->as<ir::Constant>()) return e_.make(node->type, {}, *c);
    if (node->as<ir::Local>()) return node;  // the lowering's own: the number of a warp
    const auto known = values_.find(node->id);
    if (known != values_.end()) return known->second;
    if (const auto* b = node->as<ir::BlockIndex>()) return blocks_[static_cast<std::size_t>(b->axis)];
    return values_[node->id] = scalar_expression(node);
}

Ref TileCode::scalar_expression(Ref node) {
    if (const auto* l = node->as<ir::LoopIndex>())
        return e_.make(i64, {}, ir::LoopIndex{loop_of_[static_cast<std::size_t>(l->loop)]});
    if (const auto* b = node->as<ir::Broadcast>()) return scalar(b->value);
    if (const auto* r = node->as<ir::Reshape>()) return r->value->scalar() ? scalar(r->value) : only_element(r->value);
    if (const auto* b = node->as<ir::Binary>(); b && is_integer(node->type))
        return e_.binary(b->op, scalar(b->a), scalar(b->b));
    if (const auto* l = node->as<ir::Lookup>())
        return e_.make(node->type, {},
                       ir::Lookup{scalar(l->index), table_words(e_, node, [&](Ref entry) { return scalar(entry); }),
                                  l->signs ? scalar(l->signs) : nullptr});
    require_internal(!node->as<ir::Load>() && !node->as<ir::Reduce>() && !node->as<ir::Least>() &&
                         !node->as<ir::Scan>() && !node->as<ir::VariableRead>(),
                     "a bound number has no value yet");
    return e_.make(node->type, {}, ir::map_operands(*node, [&](Ref operand) { return scalar(operand); }));
}

/// A tile of extents 1 as a number: every thread holds it.
Ref TileCode::only_element(Ref tile) {
    Iteration it(plan_.layout(tile), e_, threads_);
    return element(it, tile, it.root);
}

/// Finds where digits must be cut and written out so that every leaf under `node` can be read.
void TileCode::look_ahead(Iteration& it, Ref node, const Position& at, std::vector<Ref>* leaves) const {
    if (node->scalar()) return;
    const auto read = [&](const RegisterTile& tile, const Position& place) {
        const std::vector<std::int64_t> c = it.coefficients(tile, place);
        for (std::size_t d = 0; d < c.size(); ++d) {
            if (c[d] % tile.pack == 0) continue;
            const std::int64_t factor = tile.pack / std::gcd<std::int64_t>(c[d], tile.pack);
            it.expand(static_cast<int>(d), it.digits[d].extent % factor == 0 ? factor : it.digits[d].extent);
        }
    };
    if (const auto tile = tiles_.find(node->id); tile != tiles_.end()) {
        if (leaves) leaves->push_back(node);
        return read(tile->second, at);
    }
    ir::for_each_operand(*node, [&](Ref operand) {
        if (operand->scalar()) return;
        try {
            const Position below = it.through(*node, *operand, at);
            if (plan_.conversion(node, operand))
                read(*tile_of(node, operand), below);
            else
                look_ahead(it, operand, below, leaves);
        } catch (const DigitsCross& cross) {
            if (cross.view || !node->as<ir::Reshape>()) throw;
            throw DigitsCross{node};
        }
    });
}

/// Makes one iteration fit all the values. A value that no digits fit beside the others gets registers of its own.
void TileCode::prepare(Iteration& it, const std::vector<Ref>& values) {
    for (;;) {
        for (Digit& d : it.digits) d.expand = 1;
        try {
            for (Ref v : values) look_ahead(it, v, it.root);
            return;
        } catch (const NeedCut& need) {
            it.cut(need);
        } catch (const DigitsCross& cross) {
            const Ref view = cross.view;
            require_internal(view && std::find(values.begin(), values.end(), view) == values.end(),
                             "a digit crosses the border of an axis");
            tiles_[view->id] = own_registers(view, "seen");
            seen_.push_back(view->id);
        }
    }
}

/// Computes a tree into registers of its own, laid out as planned.
RegisterTile TileCode::own_registers(Ref value, const std::string& name) {
    Iteration it(plan_.layout(value), e_, threads_);
    prepare(it, {value});
    const RegisterTile tile = declare(plan_.layout(value), value->type, preferred_axis(it, value), 4, name);
    set_tile(value, tile);
    return tile;
}

Ref TileCode::word_index(const Iteration& it, const RegisterTile& tile, const Position& at, std::int64_t& lane) const {
    const std::vector<std::int64_t> c = it.coefficients(tile, at);
    Expressions& e = const_cast<Expressions&>(e_);
    Ref index = e.i32(0);
    std::int64_t constant = 0;
    for (std::size_t d = 0; d < c.size(); ++d) {
        const Digit& digit = it.digits[d];
        if (digit.counter) index = e.add(index, e.mul(digit.counter, c[d] * digit.expand / tile.pack));
        constant += c[d] * digit.constant;
    }
    lane = constant % tile.pack;
    return e.add(index, e.i32(constant / tile.pack));
}

Ref TileCode::read_lane(Iteration& it, const RegisterTile& tile, const Position& at) {
    std::int64_t lane = 0;
    const Ref index = word_index(it, tile, at, lane);
    const Shape shape = tile.pack > 1 ? Shape{tile.pack} : Shape{};
    const Ref w = e_.make(tile.type, shape, ir::Register{tile.array, index});
    return tile.pack > 1 ? e_.make(tile.type, {}, ir::Lane{w, static_cast<int>(lane)}) : w;
}

void TileCode::set_lane(Iteration& it, const Run& run, std::int64_t lane) const {
    for (std::size_t i = 0; i < run.digits.size(); ++i) {
        const bool last = i + 1 == run.digits.size();
        it.digits[static_cast<std::size_t>(run.digits[i])].constant = lane % run.counts[i] + (last ? run.base : 0);
        lane /= run.counts[i];
    }
}

Ref TileCode::read_word(Iteration& it, const RegisterTile& tile, const Position& at, const Run& run, std::int64_t first,
                        int lanes) {
    bool whole = tile.pack == lanes;
    Ref index = nullptr;
    for (int j = 0; whole && j < lanes; ++j) {
        set_lane(it, run, first + j);
        std::int64_t lane = 0;
        const Ref i = word_index(it, tile, at, lane);
        if (j == 0) index = i;
        whole = lane == j && i == index;
    }
    if (whole) return e_.make(tile.type, {lanes}, ir::Register{tile.array, index});
    std::vector<Ref> elements;
    for (int j = 0; j < lanes; ++j) {
        set_lane(it, run, first + j);
        elements.push_back(read_lane(it, tile, at));
    }
    return e_.make(tile.type, {lanes}, ir::Pack{std::move(elements)});
}

Ref TileCode::element_of(Iteration& it, Ref user, Ref operand, const Position& at) {
    if (operand->scalar()) return scalar(operand);
    const Position below = it.through(*user, *operand, at);
    if (plan_.conversion(user, operand)) return read_lane(it, *tile_of(user, operand), below);
    return element(it, operand, below);
}

Ref TileCode::word_of(Iteration& it, Ref user, Ref operand, const Position& at, const Run& run, std::int64_t first,
                      int lanes) {
    if (operand->scalar())
        return e_.make(operand->type, {lanes},
                       ir::Pack{std::vector<Ref>(static_cast<std::size_t>(lanes), scalar(operand))});
    const Position below = it.through(*user, *operand, at);
    if (plan_.conversion(user, operand)) return read_word(it, *tile_of(user, operand), below, run, first, lanes);
    return word(it, operand, below, run, first, lanes);
}

/// A lookup's table at the digits' present values, in words.
std::vector<Ref> TileCode::table_at(Iteration& it, Ref node, const Position& at) {
    return table_words(e_, node, [&](Ref entry) { return element_of(it, node, entry, at); });
}

/// Lanes that share a table are looked up together; null if these do not.
Ref TileCode::looked_up(Iteration& it, Ref node, const Position& at, const Run& run, std::int64_t first, int lanes) {
    if (lanes * bits_of(node->type) != 32) return nullptr;
    const auto& lookup = *node->as<ir::Lookup>();
    ir::Lookup all{nullptr, {}, nullptr};
    for (int j = 0; j < lanes; ++j) {
        set_lane(it, run, first + j);
        std::vector<Ref> table = table_at(it, node, at);
        const Ref signs = lookup.signs ? element_of(it, node, lookup.signs, at) : nullptr;
        if (j > 0 && (table != all.table || signs != all.signs)) return nullptr;
        all.table = std::move(table);
        all.signs = signs;
    }
    all.index = word_of(it, node, lookup.index, at, run, first, lanes);
    return e_.make(node->type, {lanes}, std::move(all));
}

/// The element of `node` at the digits' present values.
Ref TileCode::element(Iteration& it, Ref node, const Position& at) {
    if (node->scalar()) return scalar(node);
    if (const RegisterTile* tile = tile_of(nullptr, node)) return read_lane(it, *tile, at);
    if (node->as<ir::Broadcast>() || node->as<ir::Reshape>() || node->as<ir::Permute>()) {
        Ref operand = nullptr;
        ir::for_each_operand(*node, [&](Ref o) { operand = o; });
        return element_of(it, node, operand, at);
    }
    if (const auto* l = node->as<ir::Lookup>())
        return e_.make(node->type, {},
                       ir::Lookup{element_of(it, node, l->index, at), table_at(it, node, at),
                                  l->signs ? element_of(it, node, l->signs, at) : nullptr});
    if (const auto* c = node->as<ir::Coordinate>())
        return e_.widen(it.coordinate(at[static_cast<std::size_t>(c->axis)]));
    if (acts_on_words(*node)) {  // both halves at once, if some value under it lies packed along one digit
        std::vector<Ref> leaves;
        look_ahead(it, node, at, &leaves);
        for (std::size_t d = 0; d < it.digits.size() && !leaves.empty(); ++d) {
            Digit& digit = it.digits[d];
            if (digit.thread() || digit.expand % 2 != 0) continue;
            const std::int64_t was = digit.constant;
            const Run run{{static_cast<int>(d)}, {digit.expand}, digit.expand};
            const Ref w = word(it, node, at, run, was - was % 2, 2);
            digit.constant = was;
            bool packed = false, torn = false;  // a word as it lies; one that is put together
            ir::for_each_operand(*w, [&](Ref o) {
                const auto* pack = o->as<ir::Pack>();
                const bool whole = !pack || is_converted_pair(*pack);
                packed = packed || whole;
                torn = torn || !(whole || is_splat(*pack));
            });
            if (packed && !torn) return e_.make(node->type, {}, ir::Lane{w, static_cast<int>(was % 2)});
        }
    }
    return e_.make(node->type, {},
                   ir::map_operands(*node, [&](Ref operand) { return element_of(it, node, operand, at); }));
}

/// Lanes first … first + lanes − 1 of a run, as one packed word.
Ref TileCode::word(Iteration& it, Ref node, const Position& at, const Run& run, std::int64_t first, int lanes) {
    if (lanes == 1) {
        set_lane(it, run, first);
        return element(it, node, at);
    }
    if (const RegisterTile* tile = node->scalar() ? nullptr : tile_of(nullptr, node))
        return read_word(it, *tile, at, run, first, lanes);
    if (node->as<ir::Broadcast>() || node->as<ir::Reshape>() || node->as<ir::Permute>()) {
        Ref operand = nullptr;
        ir::for_each_operand(*node, [&](Ref o) { operand = o; });
        return word_of(it, node, operand, at, run, first, lanes);
    }
    if (acts_on_words(*node) && lanes == 2)
        return e_.make(node->type, {lanes}, ir::map_operands(*node, [&](Ref operand) {
                           return word_of(it, node, operand, at, run, first, lanes);
                       }));
    if (node->as<ir::Lookup>())
        if (const Ref all = looked_up(it, node, at, run, first, lanes)) return all;
    std::vector<Ref> elements;
    for (int j = 0; j < lanes; ++j) {
        set_lane(it, run, first + j);
        elements.push_back(element(it, node, at));
    }
    return e_.make(node->type, {lanes}, ir::Pack{std::move(elements)});
}

}  // namespace tessera::lower
