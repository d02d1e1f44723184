#pragma once

#include <exception>
#include <initializer_list>

#include "reference/mhc.hpp"
#include "tests/support/kernels/mhc_check.hpp"
#include "tests/support/kernels/mhc_tensors.hpp"

namespace tessera::test {

/// Extents of the case's tokens, followed by `tail`.
inline Shape leading(const MhcCase& c, std::initializer_list<std::int64_t> tail) {
    Shape extents;
    if (c.two_axes && c.tokens % 3 == 0) extents.push_back(3);
    extents.push_back(extents.rank() > 0 ? c.tokens / 3 : c.tokens);
    for (const std::int64_t e : tail) extents.push_back(e);
    return extents;
}
inline mhc_reference::Extents extents_of(const MhcCase& c) { return {c.tokens, c.streams, c.hidden}; }

/// The first sentence that is not empty.
inline std::string first_of(std::initializer_list<std::string> sentences) {
    for (const std::string& s : sentences)
        if (!s.empty()) return s;
    return "";
}

/// A returned tensor must hold what was written into a given one.
inline std::string same(const char* name, const Numbers& given, const Numbers& returned) {
    for (std::size_t i = 0; i < given.size(); ++i)
        if (i >= returned.size() || (given[i] != returned[i] && given[i] == given[i]))
            return std::string(name) + ": what is returned differs from what is written into a given tensor";
    return given.size() == returned.size() ? "" : std::string(name) + ": the returned tensor has another size";
}

template <class Case, class Check>
std::string checked(const Case& c, Check&& check) {
    try {
        const std::string wrong = check();
        return wrong.empty() ? "" : c.text() + ": " + wrong;
    } catch (const std::exception& error) {
        return c.text() + ": " + error.what();
    }
}

}  // namespace tessera::test
