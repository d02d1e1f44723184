#include "tests/cache/crowd.hpp"

#include <catch2/catch.hpp>
#include <unistd.h>

namespace tessera::test {

Crowd::Crowd(const std::string& test_case, int count, std::map<std::string, std::string> values) {
    REQUIRE(::pipe(ends_) == 0);
    values["TEST_START"] = std::to_string(ends_[0]);
    values["TEST_HOLD"] = std::to_string(ends_[1]);
    for (int i = 0; i < count; ++i) {
        values["TEST_NUMBER"] = std::to_string(i);
        children_.push_back(std::make_unique<Child>(test_case, values));
    }
}

std::vector<ChildResult> Crowd::start_and_wait() {
    ::close(ends_[1]);
    std::vector<ChildResult> results;
    for (auto& child : children_) results.push_back(child->wait());
    ::close(ends_[0]);
    return results;
}

void wait_for_start() {
    ::close(std::stoi(passed("TEST_HOLD")));
    char nothing = 0;
    REQUIRE(::read(std::stoi(passed("TEST_START")), &nothing, 1) == 0);
}

}  // namespace tessera::test
