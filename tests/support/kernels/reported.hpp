#pragma once

#include <fmt/core.h>
#include <string>

#include "dsl/base/error.hpp"
#include "runtime/stream.hpp"

namespace tessera::test {

/// What `call` and the synchronisation after it report; "" for nothing.
template <class Call>
std::string reported_by(const Stream& stream, Call&& call) {
    try {
        call();
        stream.synchronize();
    } catch (const UsageError& error) {
        return error.what();
    }
    return "";
}

/// "" if what was said is nothing where nothing is expected, else contains it.
inline std::string compare_report(const std::string& said, const std::string& expected) {
    if (expected.empty() ? said.empty() : said.find(expected) != std::string::npos) return "";
    return fmt::format("reports \"{}\", expected \"{}\"", said, expected);
}

}  // namespace tessera::test
