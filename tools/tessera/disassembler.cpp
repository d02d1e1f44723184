#include "tools/tessera/disassembler.hpp"

#include <array>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

#include "dsl/base/error.hpp"
#include "runtime/settings.hpp"

namespace tessera::tool {

namespace fs = std::filesystem;

namespace {

std::vector<fs::path> folders_to_search() {
    std::vector<fs::path> folders;
    std::error_code error;
    const fs::path self = fs::read_symlink("/proc/self/exe", error);
    if (!error) folders.push_back(self.parent_path());
    const std::string path = runtime::environment("PATH").value_or("");
    for (std::size_t at = 0; at < path.size();) {
        const std::size_t end = std::min(path.find(':', at), path.size());
        if (end > at) folders.emplace_back(path.substr(at, end - at));
        at = end + 1;
    }
    for (const char* name : {"CUDA_HOME", "CUDA_PATH"}) {
        if (const auto home = runtime::environment(name)) folders.push_back(fs::path(*home) / "bin");
    }
    folders.emplace_back("/usr/local/cuda/bin");
    return folders;
}

/// A cubin in a file of its own for as long as the disassembler reads it.
class TemporaryFile {
public:
    explicit TemporaryFile(std::span<const std::byte> bytes) {
        std::error_code unused;
        std::string pattern = (fs::temp_directory_path(unused) / "tessera-XXXXXX").string();
        const int descriptor = ::mkstemp(pattern.data());
        if (descriptor < 0) fail(pattern, errno);
        path_ = pattern;
        while (!bytes.empty()) {
            const ssize_t written = ::write(descriptor, bytes.data(), bytes.size());
            if (written < 0 && errno == EINTR) continue;
            if (written < 0) {
                const int error = errno;
                ::close(descriptor);
                ::unlink(path_.c_str());
                fail(path_, error);
            }
            bytes = bytes.subspan(static_cast<std::size_t>(written));
        }
        ::close(descriptor);
    }
    ~TemporaryFile() { ::unlink(path_.c_str()); }
    TemporaryFile(const TemporaryFile&) = delete;
    TemporaryFile& operator=(const TemporaryFile&) = delete;

    const std::string& path() const { return path_; }

private:
    [[noreturn]] static void fail(const std::string& path, int error) {
        throw UsageError(fmt::format("the temporary file {} cannot be written ({}); set TMPDIR to a folder with space",
                                     path, std::strerror(error)));
    }

    std::string path_;
};

std::string read_all(int descriptor) {
    std::string text;
    std::array<char, 4096> buffer;
    while (true) {
        const ssize_t got = ::read(descriptor, buffer.data(), buffer.size());
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return text;
        text.append(buffer.data(), static_cast<std::size_t>(got));
    }
}

/// What the program writes to stdout and stderr together; its exit status in `status`, −1 if it did not start.
std::string output_of(const fs::path& program, const std::vector<std::string>& arguments, int& status) {
    status = -1;
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) return {};
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDERR_FILENO);
    std::string name = program.string();
    std::vector<std::string> words = arguments;
    std::vector<char*> argv = {name.data()};
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    pid_t child = 0;
    const int started = ::posix_spawn(&child, name.c_str(), &actions, nullptr, argv.data(), environ);
    posix_spawn_file_actions_destroy(&actions);
    ::close(ends[1]);
    std::string text = started == 0 ? read_all(ends[0]) : std::string(std::strerror(started));
    ::close(ends[0]);
    int result = 0;
    if (started == 0 && ::waitpid(child, &result, 0) == child && WIFEXITED(result)) status = WEXITSTATUS(result);
    return text;
}

}  // namespace

std::optional<fs::path> find_disassembler() {
    for (const fs::path& folder : folders_to_search()) {
        for (const char* name : {"nvdisasm", "cuobjdump"}) {
            if (::access((folder / name).c_str(), X_OK) == 0) return folder / name;
        }
    }
    return std::nullopt;
}

std::string disassemble(std::span<const std::byte> cubin) {
    const auto program = find_disassembler();
    if (!program) {
        throw UsageError(
            "there is no disassembler (nvdisasm or cuobjdump) beside this program or on PATH; install one, for "
            "instance "
            "from the Python wheel nvidia-cuda-nvdisasm, or look at --stage ptx");
    }
    const TemporaryFile file(cubin);
    const bool dump = program->filename() == "cuobjdump";
    int status = 0;
    std::string text = output_of(*program, {dump ? "-sass" : "-c", file.path()}, status);
    if (status != 0) {
        throw UsageError(fmt::format("the disassembler {} failed: {}; use a newer one", program->string(),
                                     text.substr(0, text.find('\n'))));
    }
    return text;
}

}  // namespace tessera::tool
