#pragma once

#include <catch2/catch.hpp>
#include <source_location>
#include <string>
#include <tessera/dsl.hpp>

#include "dsl/base/error.hpp"

namespace tessera::test {

/// Records `body` and gives the text of the UsageError that it must end in. The text must name the file of the body.
template <class Body>
std::string refused(Body&& body, std::source_location here = std::source_location::current()) {
    try {
        record("kernel", body, here);
    } catch (const UsageError& error) {
        const std::string text = error.what();
        INFO(text);
        CHECK(text.find(here.file_name()) == 0);
        return text;
    }
    FAIL("nothing was refused");
    return "";
}

inline Catch::Matchers::StdString::ContainsMatcher says(const std::string& part) { return Catch::Contains(part); }

/// "file:line: " of the caller, plus `after` lines.
inline std::string line_here(int after = 0, std::source_location here = std::source_location::current()) {
    return std::string(here.file_name()) + ":" + std::to_string(static_cast<int>(here.line()) + after) + ": ";
}

}  // namespace tessera::test
