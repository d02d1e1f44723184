#pragma once

#include <catch2/catch.hpp>
#include <string>

#include "dsl/base/error.hpp"
#include "dsl/ir/verify.hpp"
#include "tests/ir/sample.hpp"

namespace tessera::ir::sample {

/// What verify says of a program; empty if it holds.
inline std::string verdict(const Program& p) {
    try {
        verify(p);
    } catch (const InternalError& e) {
        return e.what();
    }
    return {};
}

/// One change of a sound program that breaks one rule.
template <class Sample>
struct Breach {
    const char* rule;
    const char* why;  // part of the sentence
    void (*change)(Sample&);
};

template <class Sample, std::size_t N>
void check_breaches(const Breach<Sample> (&breaches)[N]) {
    for (const auto& [rule, why, change] : breaches) {
        Sample s;
        REQUIRE(verdict(s.p) == "");
        change(s);
        INFO(rule << ": " << why);
        const std::string said = verdict(s.p);
        CHECK_THAT(said, Catch::Contains("rule \"" + std::string(rule) + "\" is broken in program " + s.p.name));
        CHECK_THAT(said, Catch::Contains(why));
    }
}

}  // namespace tessera::ir::sample
