#include "dsl/host/numbering.hpp"

#include <algorithm>
#include <iterator>

namespace tessera::host {

Numbering::Numbering() : buffers_(2), computed_(2) {}

std::size_t Numbering::KeyHash::operator()(const Key& key) const {
    auto h = reinterpret_cast<std::uintptr_t>(key.fn);
    for (int in : key.ins) h = (h ^ static_cast<std::uintptr_t>(in)) * 0x9E3779B97F4A7C15u;
    return h ^ (h >> 29);
}

int Numbering::add(Virtual value) {
    values_.push_back(value);
    return static_cast<int>(values_.size()) - 1;
}

int Numbering::constant(std::uint64_t bits, bool wide) {
    auto [at, is_new] = (wide ? wide_constants_ : narrow_constants_).try_emplace(bits, 0);
    if (is_new) at->second = add({wide, true, 0, bits});
    return at->second;
}

int Numbering::scalar(int index, bool wide) {
    for (const NamedValue& known : scalars_)
        if (known.index == index) return known.value;
    scalars_.push_back({add({wide, true, 0, {}}), index});
    return scalars_.back().value;
}

int Numbering::thread_index() {
    if (thread_index_ < 0) thread_index_ = add({false, false, 0, {}});
    return thread_index_;
}

int Numbering::block_index() {
    if (block_index_ < 0) block_index_ = add({true, true, 1, {}});
    return block_index_;
}

std::optional<std::uint64_t> Numbering::folded(LaneFunction fn, const std::array<int, 3>& ins, std::size_t count,
                                               bool wide) const {
    std::array<std::uint64_t, 3> bits{};
    std::array<const void*, 3> pointers{};
    for (std::size_t i = 0; i < count; ++i) {
        const Virtual& in = at(ins[i]);
        if (!in.constant) return {};
        bits[i] = *in.constant;  // little endian: a 32-bit register's value stands first
        pointers[i] = &bits[i];
    }
    if (wide) {
        std::uint64_t out = 0;
        fn(&out, pointers.data(), 1);
        return out;
    }
    std::uint32_t out = 0;
    fn(&out, pointers.data(), 1);
    return out;
}

int Numbering::operate(LaneFunction fn, std::initializer_list<int> operands, bool wide, Last last) {
    std::array<int, 3> ins{-1, -1, -1};
    std::copy(operands.begin(), operands.end(), ins.begin());
    const std::size_t count = operands.size();
    if (const auto bits = folded(fn, ins, count, wide)) return constant(*bits, wide);

    bool uniform = true;
    for (std::size_t i = 0; i < count; ++i) uniform &= at(ins[i]).uniform;
    const std::size_t spread = last == Last::uniform ? count - 1 : count;
    int level = 0;
    for (std::size_t i = 0; i < count; ++i) {
        if (!uniform && i < spread) ins[i] = per_thread(ins[i]);
        level = std::max(level, at(ins[i]).level);
    }
    const Key key{fn, ins};
    auto& table = computed_[static_cast<std::size_t>(level)];
    if (const auto known = table.find(key); known != table.end()) return known->second;

    const int out = add({wide, uniform, level, {}});
    Draft draft{Kind::lanes, uniform, fn, 0, {out}, {}};
    draft.ins.assign(ins.begin(), ins.begin() + static_cast<std::ptrdiff_t>(count));
    buffers_[static_cast<std::size_t>(level)].push_back(std::move(draft));
    table.emplace(key, out);
    return out;
}

int Numbering::per_thread(int value) {
    const Virtual from = at(value);
    if (!from.uniform) return value;
    const LaneFunction fn = broadcast_function(from.wide);
    const Key key{fn, {value, -1, -1}};
    auto& table = computed_[static_cast<std::size_t>(from.level)];
    if (const auto known = table.find(key); known != table.end()) return known->second;
    const int out = add({from.wide, false, from.level, {}});
    buffers_[static_cast<std::size_t>(from.level)].push_back({Kind::lanes, false, fn, 0, {out}, {value}});
    table.emplace(key, out);
    return out;
}

int Numbering::fresh(bool wide, bool uniform) { return add({wide, uniform, level(), {}}); }

int Numbering::home(bool wide, bool uniform) { return add({wide, uniform, level() + 1, {}}); }

void Numbering::copy(int into, int value) {
    const bool uniform = at(into).uniform;
    const bool spread = !uniform && at(value).uniform;
    const bool wide = at(into).wide;
    emit({Kind::lanes, uniform, spread ? broadcast_function(wide) : copy_function(wide), 0, {into}, {value}});
}

void Numbering::open_loop() {
    buffers_.emplace_back();
    computed_.emplace_back();
}

void Numbering::close_role() {
    roles_.push_back(std::move(buffers_.back()));
    buffers_.pop_back();
    computed_.pop_back();
}

void Numbering::close_loop(Draft enter, Draft next, const std::vector<int>& carried) {
    std::vector<Draft> body = std::move(buffers_.back());
    buffers_.pop_back();
    computed_.pop_back();
    emit(std::move(enter));
    std::move(body.begin(), body.end(), std::back_inserter(buffers_.back()));
    emit(std::move(next));
    for (int value : carried) values_[static_cast<std::size_t>(value)].level = level();
}

}  // namespace tessera::host
