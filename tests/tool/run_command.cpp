#include "tests/tool/run_command.hpp"

#include <cstdio>
#include <fcntl.h>
#include <unistd.h>

#include "tests/tool/support.hpp"
#include "tools/tessera/command_line.hpp"

namespace tessera::tool_test {

namespace {

/// Sends a descriptor to a file until the end of the scope.
class Redirect {
public:
    Redirect(int descriptor, const std::string& path) : descriptor_(descriptor), saved_(::dup(descriptor)) {
        const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
        ::dup2(file, descriptor);
        ::close(file);
    }
    ~Redirect() {
        std::fflush(nullptr);
        ::dup2(saved_, descriptor_);
        ::close(saved_);
    }

private:
    int descriptor_, saved_;
};

}  // namespace

Outcome tessera(std::vector<std::string> words) {
    const Folder folder;
    words.insert(words.begin(), "tessera");
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    int code = 0;
    std::fflush(nullptr);
    {
        const Redirect out(STDOUT_FILENO, folder.file("out"));
        const Redirect err(STDERR_FILENO, folder.file("err"));
        code = tool::run_command_line(static_cast<int>(words.size()), argv.data());
    }
    return {code, get(folder.file("out")), get(folder.file("err"))};
}

}  // namespace tessera::tool_test
