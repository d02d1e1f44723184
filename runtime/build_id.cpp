#include "runtime/build_id.hpp"

#include <cerrno>
#include <cstring>
#include <elf.h>
#include <fcntl.h>
#include <span>
#include <string_view>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>
#include <vector>

#include "dsl/base/error.hpp"
#include "runtime/cache/digest.hpp"

namespace tessera::runtime {

namespace {

/// A file that is only read, closed at the end of the scope.
class ReadOnlyFile {
public:
    explicit ReadOnlyFile(const std::filesystem::path& path)
        : descriptor_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
        struct stat status{};
        if (descriptor_ >= 0 && (::fstat(descriptor_, &status) != 0 || !S_ISREG(status.st_mode))) {
            ::close(descriptor_);
            descriptor_ = -1;
            errno = EINVAL;
        }
    }
    ~ReadOnlyFile() {
        if (descriptor_ >= 0) ::close(descriptor_);
    }
    ReadOnlyFile(const ReadOnlyFile&) = delete;
    ReadOnlyFile& operator=(const ReadOnlyFile&) = delete;

    bool is_open() const { return descriptor_ >= 0; }

    /// Bytes read from `offset` on: fewer than `bytes` only at the end of the file, -1 on an error.
    ssize_t read_at(void* into, std::size_t bytes, std::uint64_t offset) const {
        std::size_t done = 0;
        while (done < bytes) {
            const ssize_t got =
                ::pread(descriptor_, static_cast<char*>(into) + done, bytes - done, static_cast<off_t>(offset + done));
            if (got < 0 && errno == EINTR) continue;
            if (got < 0) return -1;
            if (got == 0) break;
            done += static_cast<std::size_t>(got);
        }
        return static_cast<ssize_t>(done);
    }

    bool read_all_at(void* into, std::size_t bytes, std::uint64_t offset) const {
        return offset <= (1ull << 62) && read_at(into, bytes, offset) == static_cast<ssize_t>(bytes);
    }

private:
    int descriptor_;
};

constexpr std::size_t most_notes = 64 * 1024;  // a segment of notes is a few dozen bytes long
constexpr int most_segments = 256;

std::size_t aligned(std::size_t size) { return (size + 3) & ~std::size_t{3}; }

std::optional<std::string> build_id_in_notes(std::span<const std::uint8_t> notes) {
    while (notes.size() >= sizeof(Elf64_Nhdr)) {
        Elf64_Nhdr note;
        std::memcpy(&note, notes.data(), sizeof note);
        notes = notes.subspan(sizeof note);
        const std::size_t name = aligned(note.n_namesz);
        const std::size_t description = aligned(note.n_descsz);
        if (name > notes.size() || note.n_descsz > notes.size() - name) return std::nullopt;
        const bool gnu = note.n_namesz == 4 && std::memcmp(notes.data(), "GNU", 4) == 0;
        if (gnu && note.n_type == NT_GNU_BUILD_ID && note.n_descsz > 0) {
            return hex(notes.subspan(name, note.n_descsz));
        }
        notes = notes.subspan(std::min(notes.size(), name + description));
    }
    return std::nullopt;
}

std::optional<std::string> build_id_of(const ReadOnlyFile& file) {
    Elf64_Ehdr header;
    if (!file.read_all_at(&header, sizeof header, 0)) return std::nullopt;
    if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64 ||
        header.e_ident[EI_DATA] != ELFDATA2LSB || header.e_phentsize != sizeof(Elf64_Phdr) ||
        header.e_phnum > most_segments) {
        return std::nullopt;
    }
    std::vector<Elf64_Phdr> segments(header.e_phnum);
    if (!file.read_all_at(segments.data(), segments.size() * sizeof(Elf64_Phdr), header.e_phoff)) return std::nullopt;
    for (const Elf64_Phdr& segment : segments) {
        if (segment.p_type != PT_NOTE || segment.p_filesz > most_notes) continue;
        std::vector<std::uint8_t> notes(segment.p_filesz);
        if (!file.read_all_at(notes.data(), notes.size(), segment.p_offset)) continue;
        if (auto id = build_id_in_notes(notes)) return id;
    }
    return std::nullopt;
}

}  // namespace

std::optional<std::string> elf_build_id(const std::filesystem::path& path) {
    const ReadOnlyFile file(path);
    return file.is_open() ? build_id_of(file) : std::nullopt;
}

std::string library_identity(const std::filesystem::path& path) {
    const ReadOnlyFile file(path);
    const auto unreadable = [&] {
        return UsageError(path.string() + " cannot be read (" + std::generic_category().message(errno) +
                          "): name a readable library file, or unset TESSERA_NVRTC so that one is searched for.");
    };
    if (!file.is_open()) throw unreadable();
    if (const auto id = build_id_of(file)) return "build-id:" + *id;
    Hasher hasher;
    std::vector<std::byte> piece(1 << 20);
    for (std::uint64_t offset = 0;;) {
        const ssize_t got = file.read_at(piece.data(), piece.size(), offset);
        if (got < 0) throw unreadable();
        if (got == 0) break;
        hasher.add(std::span(piece).first(static_cast<std::size_t>(got)));
        offset += static_cast<std::uint64_t>(got);
    }
    return "xxh3:" + hex(hasher.finish());
}

}  // namespace tessera::runtime
