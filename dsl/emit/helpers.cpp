#include "dsl/emit/helpers.hpp"

#include <algorithm>

#include "dsl/base/error.hpp"

namespace tessera::emit {

HelperSet::HelperSet(const Target& target) : sm_(target.sm), used_(helper_table().size(), false) {}

const std::string& HelperSet::use(std::string_view name) {
    const auto table = helper_table();
    for (std::size_t i = table.size(); i-- > 0;) {
        if (table[i].from_sm > sm_ || table[i].name != name) continue;
        if (!used_[i]) {
            used_[i] = true;
            for (const std::string& needed : table[i].needs) use(needed);
        }
        return table[i].name;
    }
    throw InternalError("there is no device helper called " + std::string(name));
}

namespace {

template <class Kind>
void insert_sorted(std::vector<Kind>& all, const Kind& helper) {
    const auto at = std::lower_bound(all.begin(), all.end(), helper);
    if (at == all.end() || !(*at == helper)) all.insert(at, helper);
}

}  // namespace

std::string HelperSet::use(const MemoryHelper& helper) {
    insert_sorted(memory_, helper);
    return name_of(helper);
}

std::string HelperSet::use(const ProductHelper& helper) {
    insert_sorted(products_, helper);
    return name_of(helper);
}

std::string HelperSet::text() const {
    std::string out;
    const auto table = helper_table();
    for (std::size_t i = 0; i < table.size(); ++i)
        if (used_[i]) out += table[i].text, out += '\n';
    for (const MemoryHelper& helper : memory_) out += text_of(helper), out += '\n';
    for (const ProductHelper& helper : products_) out += text_of(helper), out += '\n';
    return out;
}

}  // namespace tessera::emit
