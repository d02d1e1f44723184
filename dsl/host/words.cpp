#include "dsl/host/words.hpp"

#include <unordered_set>

#include "dsl/base/error.hpp"

namespace tessera::host {

namespace {

struct Touched {
    std::vector<bool> written, declared;  // by array
};

void collect(const ir::Body& body, Touched& touched) {
    for (const ir::Statement& s : body) {
        if (const auto* declare = s.as<ir::Declare>())
            touched.declared[static_cast<std::size_t>(declare->array)] = true;
        if (const auto* set = s.as<ir::Set>()) touched.written[static_cast<std::size_t>(set->array)] = true;
        if (const auto* load = s.as<ir::LoadVector>()) touched.written[static_cast<std::size_t>(load->array)] = true;
        if (const auto* product = s.as<ir::MmaTile>()) touched.written[static_cast<std::size_t>(product->array)] = true;
        if (const auto* product = s.as<ir::WarpgroupMma>())
            touched.written[static_cast<std::size_t>(product->array)] = true;
        if (const auto* loop = s.as<ir::For>()) collect(loop->body, touched);
    }
}

Touched touched_by(const ir::Body& body, std::size_t arrays) {
    Touched touched{std::vector<bool>(arrays), std::vector<bool>(arrays)};
    collect(body, touched);
    return touched;
}

}  // namespace

Words::Words(const ir::Program& program, Numbering& numbering) : program_(program), numbering_(numbering) {
    arrays_.resize(program.arrays.size());
    for (std::size_t i = 0; i < arrays_.size(); ++i) declare(static_cast<int>(i));
}

void Words::declare(int array) {
    const ir::RegisterArray& a = program_.arrays[static_cast<std::size_t>(array)];
    const Element undefined{numbering_.constant(0, is_wide(a.type)), numbering_.constant(0, false)};
    arrays_[static_cast<std::size_t>(array)].assign(static_cast<std::size_t>(a.words * a.pack), undefined);
}

Words::Element& Words::at(int array, std::size_t element) {
    auto& elements = arrays_[static_cast<std::size_t>(array)];
    require_internal(element < elements.size(), "the host executor met an index past the end of a register array");
    return elements[element];
}

void Words::set(int array, std::size_t element, int value) {
    at(array, element) = {value, numbering_.constant(1, false)};
}

const Words::Element& Words::get(int array, std::size_t element) const {
    return const_cast<Words*>(this)->at(array, element);
}

std::vector<Words::Carried> Words::enter_loop(const ir::Body& body) {
    const Touched touched = touched_by(body, arrays_.size());
    const int yes = numbering_.constant(1, false);
    std::vector<Carried> carried;
    for (std::size_t a = 0; a < arrays_.size(); ++a) {
        if (!touched.written[a] || touched.declared[a]) continue;
        for (std::size_t e = 0; e < arrays_[a].size(); ++e) {
            Element& now = arrays_[a][e];
            Home home{numbering_.home(numbering_.at(now.value).wide, false), yes, false};
            numbering_.copy(home.value, now.value);
            if (now.defined != yes) {
                home.defined = numbering_.home(false, true);
                home.carries_defined = true;
                numbering_.copy(home.defined, now.defined);
            }
            carried.push_back({static_cast<int>(a), e, home});
            now = {home.value, home.defined};
        }
    }
    return carried;
}

void Words::end_of_turn(const std::vector<Carried>& carried) {
    // A word may end up with what another one's home held at the start of the turn: all are read before any is written.
    std::vector<Element> ends;
    const std::vector<int> registers = registers_of(carried);
    const std::unordered_set<int> homes(registers.begin(), registers.end());
    const auto aside = [&](int value, int home) {
        if (value == home || !homes.contains(value)) return value;
        const int copy = numbering_.fresh(numbering_.at(value).wide, numbering_.at(value).uniform);
        numbering_.copy(copy, value);
        return copy;
    };
    for (const Carried& c : carried) {
        const Element& now = at(c.array, c.element);
        ends.push_back({aside(now.value, c.home.value), aside(now.defined, c.home.defined)});
    }
    for (std::size_t i = 0; i < carried.size(); ++i) {
        const Home& home = carried[i].home;
        if (ends[i].value != home.value) numbering_.copy(home.value, ends[i].value);
        if (ends[i].defined != home.defined) numbering_.copy(home.defined, ends[i].defined);
    }
}

void Words::leave_loop(const ir::Body& body, const std::vector<Carried>& carried) {
    for (const Carried& c : carried) at(c.array, c.element) = {c.home.value, c.home.defined};
    const Touched touched = touched_by(body, arrays_.size());
    for (std::size_t a = 0; a < arrays_.size(); ++a)
        if (touched.declared[a]) declare(static_cast<int>(a));
}

std::vector<int> registers_of(const std::vector<Words::Carried>& carried) {
    std::vector<int> registers;
    for (const Words::Carried& c : carried) {
        registers.push_back(c.home.value);
        if (c.home.carries_defined) registers.push_back(c.home.defined);
    }
    return registers;
}

}  // namespace tessera::host
