// A file appears complete or not at all, also when the disk is full.
#include <catch2/catch.hpp>
#include <csignal>
#include <cstring>
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "runtime/output_file.hpp"
#include "runtime/safetensors.hpp"
#include "tests/files/support.hpp"

namespace tessera::files_test {
namespace {

const std::string megabyte(1 << 20, 'x');

std::string write_tensor(const std::string& path, bool overwrite = false) {
    return usage_error([&] {
        SafetensorsWriter writer(path, {{"a", StoredType::U8, {1 << 20}}}, {}, overwrite);
        writer.append("a", bytes_of(megabyte));
        writer.finish();
    });
}

TEST_CASE("a write that fails leaves neither the output nor the temporary") {
    const Folder folder;
    struct rlimit before = {};
    REQUIRE(::getrlimit(RLIMIT_FSIZE, &before) == 0);
    const auto handler = std::signal(SIGXFSZ, SIG_IGN);
    const struct rlimit small = {64 << 10, before.rlim_max};
    REQUIRE(::setrlimit(RLIMIT_FSIZE, &small) == 0);
    const std::string error = write_tensor(folder.file("out"));
    ::setrlimit(RLIMIT_FSIZE, &before);
    std::signal(SIGXFSZ, handler);
    CHECK(error == "the output " + folder.file("out") + " could not be written (writing: " + std::strerror(EFBIG) +
                       "); nothing was left behind; raise the file size limit (ulimit -f) or write to another disk");
    CHECK(folder.entries() == 0);
}

/// In a child with a file system of its own: 0 right, 1 wrong, 2 no such file system to be had.
int on_a_full_disk(const std::string& mount_point) {
    if (::unshare(::geteuid() == 0 ? CLONE_NEWNS : CLONE_NEWUSER | CLONE_NEWNS) != 0) return 2;
    ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr);
    if (::mount("tmpfs", mount_point.c_str(), "tmpfs", 0, "size=128k") != 0) return 2;
    put(mount_point + "/old", "kept");
    const std::string error = write_tensor(mount_point + "/old", true);
    const bool said = error.find("No space left on device") != std::string::npos &&
                      error.find("free some space") != std::string::npos;
    std::size_t entries = 0;
    for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(mount_point)) ++entries;
    return said && entries == 1 && get(mount_point + "/old") == "kept" ? 0 : 1;
}

TEST_CASE("a full disk is a sentence and the old file stays") {
    const Folder folder;
    const pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) ::_exit(on_a_full_disk(folder.path().string()));
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
    REQUIRE(WIFEXITED(status));
    if (WEXITSTATUS(status) == 2) WARN("no tmpfs could be mounted here: the full disk was not tried");
    CHECK(WEXITSTATUS(status) != 1);
}

TEST_CASE("destinations that cannot be are refused") {
    const Folder folder;
    const std::string old = folder.file("old");
    put(old, "kept");
    CHECK(write_tensor(old) ==
          "the output " + old + " exists already; remove it or ask for it to be replaced (--force)");
    CHECK(get(old) == "kept");
    CHECK(write_tensor(folder.path()) ==
          "the output " + folder.path().string() + " is a folder; give the name of a file in it");
    CHECK(write_tensor("/dev/null", true) == "the output /dev/null is no regular file; give the name of a new file");
    CHECK(write_tensor("") == "the output \"\" is no file name; give the name of a file");
    const std::string nowhere = folder.file("no/such/folder");
    CHECK(write_tensor(nowhere) == "the output " + nowhere + " could not be written (creating a file in its folder: " +
                                       std::strerror(ENOENT) + "); nothing was left behind; create the folder first");
    CHECK(folder.entries() == 1);
    CHECK(write_tensor(old, true).empty());
    CHECK(SafetensorsFile::open(old).tensors().size() == 1);
}

TEST_CASE("a file that appears meanwhile is not replaced") {
    const Folder folder;
    const std::string path = folder.file("race");
    OutputFile output(path, false);
    output.write_at(0, bytes_of("mine"));
    put(path, "theirs");
    CHECK(usage_error([&] { output.publish(); }) ==
          "the output " + path + " appeared while it was being written; remove it and start again");
    CHECK(get(path) == "theirs");
    CHECK(folder.entries() == 1);
}

TEST_CASE("the writer holds its caller to what was announced") {
    const Folder folder;
    const std::string path = folder.file("out");
    const std::string head = "the output " + path;
    const auto writer_of = [&](const std::vector<NewTensor>& tensors) {
        return usage_error([&] { SafetensorsWriter(path, tensors, {}, false); });
    };
    const NewTensor a{"a", StoredType::F32, {2}};
    CHECK(writer_of({a, a}) == head + ": the tensor name \"a\" stands twice; rename one tensor");
    CHECK(writer_of({{"__metadata__", StoredType::U8, {}}}) ==
          head + ": the tensor name \"__metadata__\" is reserved; rename one tensor");
    CHECK(writer_of({{"a", StoredType::U8, {-1}}}) ==
          head + ": the tensor \"a\" (U8 [-1]) has a negative extent; give another shape");
    CHECK(writer_of({{"a", StoredType::F64, {INT64_MAX}}}) ==
          head + ": the tensor \"a\" (F64 [9223372036854775807]) is larger than any file can be; give another shape");
    CHECK(writer_of({{"a", StoredType::F6_E2M3, {3}}}) ==
          head + ": the tensor \"a\" (F6_E2M3 [3]) does not fill whole bytes; give another shape");

    SafetensorsWriter writer(path, {a}, {}, false);
    CHECK(usage_error([&] { writer.append("b", {}); }) ==
          head + " has no tensor \"b\"; name one that it was opened with");
    writer.append("a", bytes_of("1234567"));
    CHECK(usage_error([&] { writer.append("a", bytes_of("12")); }) ==
          head + ": the tensor \"a\" (F32 [2]) takes 8 bytes and was given more; check its shape");
    CHECK(usage_error([&] { writer.finish(); }) ==
          head + ": the tensor \"a\" (F32 [2]) was given 7 of its 8 bytes; write all of it");
    writer.append("a", bytes_of("8"));
    writer.finish();
    CHECK(get(path).substr(get(path).size() - 8) == "12345678");
    CHECK(usage_error([&] { writer.finish(); }) == head + " is closed; it was published before");
}

}  // namespace
}  // namespace tessera::files_test
