#include "tests/cache/support.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <fcntl.h>
#include <fstream>
#include <iterator>
#include <random>
#include <sys/wait.h>
#include <unistd.h>

extern char** environ;

namespace tessera::test {

namespace fs = std::filesystem;

TemporaryFolder::TemporaryFolder(Medium medium) {
    const bool in_memory = medium == Medium::memory && ::access("/dev/shm", W_OK) == 0;
    const fs::path parent = in_memory ? "/dev/shm" : fs::temp_directory_path();
    std::string name = (parent / "tessera-test-XXXXXX").string();
    REQUIRE(::mkdtemp(name.data()) != nullptr);
    path_ = name;
}

TemporaryFolder::~TemporaryFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
}

runtime::CacheKey sample_key(int n) {
    return runtime::make_key("kernel number " + std::to_string(n), "sm_90a", "build-id:1234", {});
}

runtime::CachedCubin sample_compilation(int n, std::size_t cubin_bytes) {
    std::mt19937 random(static_cast<unsigned>(n));
    runtime::CachedCubin compiled;
    compiled.kernel = "kernel_" + std::to_string(n);
    compiled.ptx = "// ptx of " + std::to_string(n);
    compiled.log = "log of " + std::to_string(n);
    for (const char c : {'\x7f', 'E', 'L', 'F'}) compiled.cubin.push_back(static_cast<std::byte>(c));
    while (compiled.cubin.size() < cubin_bytes) compiled.cubin.push_back(static_cast<std::byte>(random()));
    return compiled;
}

bool same(const runtime::CachedCubin& a, const runtime::CachedCubin& b) {
    return a.kernel == b.kernel && a.cubin == b.cubin && a.ptx == b.ptx && a.log == b.log;
}

fs::path place_of(const fs::path& folder, const runtime::CacheKey& key) {
    const std::string digits = key.hex();
    return folder / digits.substr(0, 2) / (digits.substr(2) + ".cubin");
}

runtime::FileOps ops_without_flush() {
    runtime::FileOps ops = runtime::real_file_ops();
    ops.flush = [](int) { return 0; };
    return ops;
}

std::string read_file(const fs::path& path) {
    std::ifstream stream(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(stream), {}};
}

void write_file(const fs::path& path, const std::string& bytes) {
    std::ofstream stream(path, std::ios::binary | std::ios::trunc);
    stream << bytes;
    stream.close();
    REQUIRE(stream);
}

std::vector<std::string> files_below(const fs::path& folder) {
    std::vector<std::string> names;
    for (const auto& item : fs::recursive_directory_iterator(folder)) {
        if (!item.is_directory()) names.push_back(item.path().lexically_relative(folder).string());
    }
    std::sort(names.begin(), names.end());
    return names;
}

int ChildResult::warnings() const {
    int count = 0;
    for (std::size_t at = 0; (at = output.find("tessera: warning:", at)) != std::string::npos; ++at) ++count;
    return count;
}

Child::Child(const std::string& test_case, const std::map<std::string, std::string>& values) {
    int ends[2];
    REQUIRE(::pipe2(ends, O_CLOEXEC) == 0);
    std::vector<std::string> variables;
    for (char** variable = environ; *variable; ++variable) {
        const std::string text = *variable;
        const std::string name = text.substr(0, text.find('='));
        if (!values.contains(name)) variables.push_back(text);
    }
    for (const auto& [name, value] : values) {
        if (!value.empty()) variables.push_back(name + "=" + value);
    }
    std::vector<char*> environment;
    for (std::string& variable : variables) environment.push_back(variable.data());
    environment.push_back(nullptr);
    std::string name = test_case;
    std::string program = "/proc/self/exe";
    char* arguments[] = {program.data(), name.data(), nullptr};
    pid_ = ::fork();
    REQUIRE(pid_ >= 0);
    if (pid_ == 0) {
        ::dup2(ends[1], 1);
        ::dup2(ends[1], 2);
        ::execve(program.c_str(), arguments, environment.data());
        ::_exit(127);
    }
    ::close(ends[1]);
    output_ = ends[0];
}

ChildResult Child::wait() {
    ChildResult result;
    char piece[4096];
    for (ssize_t got = 0; (got = ::read(output_, piece, sizeof piece)) > 0;) {
        result.output.append(piece, static_cast<std::size_t>(got));
    }
    ::close(output_);
    int status = 0;
    REQUIRE(::waitpid(pid_, &status, 0) == pid_);
    result.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    // A name that matches no test case must not pass for success.
    if (result.output.find("No test cases matched") != std::string::npos) result.exit_code = 126;
    return result;
}

std::string passed(const char* name) {
    const char* value = std::getenv(name);
    return value ? value : "";
}

void become_ordinary_user() {
    if (::geteuid() != 0) return;
    REQUIRE(::setgid(ordinary_user) == 0);
    REQUIRE(::setuid(ordinary_user) == 0);
}

}  // namespace tessera::test
