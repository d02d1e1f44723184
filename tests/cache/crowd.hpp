#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/cache/support.hpp"

namespace tessera::test {

/// Processes that all begin at the same moment: each waits until nobody can write into a pipe any more.
class Crowd {
public:
    Crowd(const std::string& test_case, int count, std::map<std::string, std::string> values);
    std::vector<ChildResult> start_and_wait();

private:
    int ends_[2];
    std::vector<std::unique_ptr<Child>> children_;
};

/// In a child of a crowd: returns when all are there.
void wait_for_start();

}  // namespace tessera::test
