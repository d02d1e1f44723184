#pragma once

#include <string>
#include <vector>

namespace tessera::tool_test {

struct Outcome {
    int code;
    std::string output, error;
};

/// The command as a user types it, in this process: tessera({"cache", "ls"}).
Outcome tessera(std::vector<std::string> words);

}  // namespace tessera::tool_test
