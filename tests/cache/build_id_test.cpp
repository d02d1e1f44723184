#include "runtime/build_id.hpp"

#include <catch2/catch.hpp>
#include <cstring>
#include <elf.h>
#include <random>

#include "dsl/base/error.hpp"
#include "tests/cache/support.hpp"

using namespace tessera;
using namespace tessera::runtime;
using namespace tessera::test;

namespace {

template <class T>
void append(std::string& file, const T& record) {
    file.append(reinterpret_cast<const char*>(&record), sizeof record);
}

void append_note(std::string& notes, std::uint32_t type, const std::string& name, const std::string& description) {
    const auto padded = [](std::string text) {
        text.resize((text.size() + 3) / 4 * 4);
        return text;
    };
    append(notes, Elf64_Nhdr{static_cast<Elf64_Word>(name.size()), static_cast<Elf64_Word>(description.size()), type});
    notes += padded(name) + padded(description);
}

/// An ELF file of nothing but a load segment and a segment of notes.
std::string elf_with_notes(const std::string& notes) {
    Elf64_Ehdr header{};
    std::memcpy(header.e_ident, ELFMAG, SELFMAG);
    header.e_ident[EI_CLASS] = ELFCLASS64;
    header.e_ident[EI_DATA] = ELFDATA2LSB;
    header.e_phoff = sizeof header;
    header.e_phentsize = sizeof(Elf64_Phdr);
    header.e_phnum = 2;
    Elf64_Phdr load{}, note{};
    load.p_type = PT_LOAD;
    note.p_type = PT_NOTE;
    note.p_offset = sizeof header + 2 * sizeof(Elf64_Phdr);
    note.p_filesz = notes.size();
    std::string file;
    append(file, header);
    append(file, load);
    append(file, note);
    return file + notes;
}

const std::string gnu("GNU\0", 4);

}  // namespace

TEST_CASE("build-id: found among other notes") {
    TemporaryFolder folder;
    const auto path = folder.path() / "library.so";
    std::string notes;
    append_note(notes, NT_GNU_ABI_TAG, gnu, std::string(16, 'x'));
    append_note(notes, NT_GNU_BUILD_ID, std::string("XNU\0", 4), "other");
    append_note(notes, NT_GNU_BUILD_ID, gnu, "\x01\xab\xcd\xef\x7f");
    write_file(path, elf_with_notes(notes));
    CHECK(elf_build_id(path) == "01abcdef7f");
    CHECK(library_identity(path) == "build-id:01abcdef7f");
}

TEST_CASE("build-id: without one the contents decide, whatever the path and age") {
    TemporaryFolder folder;
    const auto a = folder.path() / "a", b = folder.path() / "b", c = folder.path() / "c";
    std::string notes;
    append_note(notes, NT_GNU_ABI_TAG, gnu, std::string(16, 'x'));
    write_file(a, elf_with_notes(notes) + std::string(3 << 20, 'z'));
    std::filesystem::copy_file(a, b);
    std::filesystem::last_write_time(b, std::filesystem::file_time_type{});
    write_file(c, elf_with_notes(notes) + std::string((3 << 20) - 1, 'z') + "y");
    CHECK_FALSE(elf_build_id(a));
    CHECK(library_identity(a) == library_identity(b));
    CHECK(library_identity(a) != library_identity(c));
    write_file(a, "abc");
    CHECK(library_identity(a) == "xxh3:06b05ab6733a618578af5f94892f3950");
    write_file(a, "");
    CHECK(library_identity(a) == "xxh3:99aa06d3014798d86001c324468d497f");
}

TEST_CASE("build-id: this very program carries one, as its linker wrote it") {
    const auto id = elf_build_id("/proc/self/exe");
    if (!id) {
        WARN("this linker writes no build-id");
        return;
    }
    CHECK(id->size() >= 16);
    std::string raw;
    for (std::size_t i = 0; i < id->size(); i += 2) raw += static_cast<char>(std::stoi(id->substr(i, 2), nullptr, 16));
    CHECK(read_file("/proc/self/exe").find(gnu + raw) != std::string::npos);
}

TEST_CASE("build-id: a missing file or a folder is a UsageError with the path and the cure") {
    using Catch::Matchers::Contains;
    TemporaryFolder folder;
    CHECK_FALSE(elf_build_id(folder.path() / "missing.so"));
    CHECK_THROWS_AS(library_identity(folder.path() / "missing.so"), UsageError);
    CHECK_THROWS_WITH(library_identity(folder.path() / "missing.so"),
                      Contains("missing.so cannot be read (No such file or directory)") && Contains("TESSERA_NVRTC"));
    CHECK_THROWS_AS(library_identity(folder.path()), UsageError);
}

TEST_CASE("build-id: damaged files do no harm") {
    TemporaryFolder folder;
    const auto path = folder.path() / "library.so";
    std::string notes;
    append_note(notes, NT_GNU_ABI_TAG, gnu, std::string(16, 'x'));
    append_note(notes, NT_GNU_BUILD_ID, gnu, std::string(20, '\x55'));
    const std::string good = elf_with_notes(notes);
    write_file(path, good);
    const auto whole = elf_build_id(path);
    REQUIRE(whole == std::string(40, '5'));
    for (std::size_t bytes = 0; bytes < good.size(); ++bytes) {
        write_file(path, good.substr(0, bytes));
        CHECK_FALSE(elf_build_id(path));
    }
    std::mt19937 random(7);
    for (int round = 0; round < 3000; ++round) {
        std::string bytes = good;
        for (int i = 0; i < 3; ++i) bytes[random() % bytes.size()] = static_cast<char>(random());
        write_file(path, bytes);
        const auto id = elf_build_id(path);
        if (id) REQUIRE(id->size() <= 2 * bytes.size());
    }
}
