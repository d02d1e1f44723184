#include "runtime/cache/folder.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <fcntl.h>
#include <system_error>

namespace tessera::runtime {

namespace {

constexpr std::size_t prefix_digits = 2;
constexpr std::size_t name_digits = 2 * sizeof(Digest) - prefix_digits;
constexpr std::string_view entry_suffix = ".cubin";
constexpr std::string_view temporary_mark = ".tmp-";
constexpr std::string_view aside_mark = ".aside-";
constexpr std::int64_t leftover_age = std::int64_t{3600} * 1'000'000'000;

int digit_value(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    return -1;
}

bool all_digits(std::string_view text) {
    return std::all_of(text.begin(), text.end(), [](char c) { return digit_value(c) >= 0; });
}

std::string random_digits(const FileOps& ops) {
    const std::uint64_t bits = ops.random_bits();
    std::array<std::uint8_t, 8> bytes;
    for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::uint8_t>(bits >> (8 * i));
    return hex(bytes);
}

enum class Named { entry, temporary, neither };

Named kind_of_name(std::string_view name) {
    if (name.size() < name_digits || !all_digits(name.substr(0, name_digits))) return Named::neither;
    name.remove_prefix(name_digits);
    if (!name.starts_with(entry_suffix)) return Named::neither;
    name.remove_prefix(entry_suffix.size());
    if (name.empty()) return Named::entry;
    if (!name.starts_with(temporary_mark)) return Named::neither;
    name.remove_prefix(temporary_mark.size());
    return name.size() == 16 && all_digits(name) ? Named::temporary : Named::neither;
}

Digest digest_of(std::string_view digits) {
    Digest digest;
    for (std::size_t i = 0; i < digest.size(); ++i) {
        digest[i] = static_cast<std::uint8_t>(digit_value(digits[2 * i]) * 16 + digit_value(digits[2 * i + 1]));
    }
    return digest;
}

std::string because(const std::string& what) { return what + " (" + std::generic_category().message(errno) + ")"; }

}  // namespace

std::string subfolder_of(const std::string& folder, const Digest& name) {
    return folder + "/" + hex(name).substr(0, prefix_digits);
}

std::string entry_path(const std::string& folder, const Digest& name) {
    const std::string digits = hex(name);
    return folder + "/" + digits.substr(0, prefix_digits) + "/" + digits.substr(prefix_digits) +
           std::string(entry_suffix);
}

std::string temporary_path(const std::string& path, const FileOps& ops) {
    return path + std::string(temporary_mark) + random_digits(ops);
}

FolderState inspect_folder(const std::string& folder, const FileOps& ops, std::string* why, Trust trust,
                           const char* what) {
    const std::string subject = std::string(what) + " " + folder;
    const int descriptor = ops.open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
    if (descriptor < 0) {
        if (errno == ENOENT) return FolderState::missing;
        *why = because(subject + " cannot be opened");
        return FolderState::refused;
    }
    struct stat status{};
    const bool known = ops.status(descriptor, &status) == 0;
    if (!known) *why = because(subject + " cannot be examined");
    ops.close(descriptor);
    if (!known) return FolderState::refused;
    const std::string reason = distrust(status, trust, ops);
    if (reason.empty()) return FolderState::ready;
    *why = subject + " " + reason;
    return FolderState::refused;
}

bool make_folders(const std::string& folder, const FileOps& ops) {
    if (ops.make_folder(folder.c_str(), 0700) == 0 || errno == EEXIST) return true;
    if (errno != ENOENT) return false;
    const std::size_t slash = folder.find_last_of('/');
    if (slash == std::string::npos || slash == 0) return false;
    if (!make_folders(folder.substr(0, slash), ops)) return false;
    return ops.make_folder(folder.c_str(), 0700) == 0 || errno == EEXIST;
}

bool move_aside(const std::string& path, const FileOps& ops) {
    if (ops.remove_folder(path.c_str()) == 0) return true;
    const std::string aside = path + std::string(aside_mark) + random_digits(ops);
    return ops.rename(path.c_str(), aside.c_str()) == 0;
}

std::vector<FoundFile> scan_folder(const std::string& folder, const FileOps& ops) {
    std::vector<FoundFile> found;
    std::vector<std::string> prefixes;
    ops.list_folder(folder.c_str(), &prefixes);
    for (const std::string& prefix : prefixes) {
        if (prefix.size() != prefix_digits || !all_digits(prefix)) continue;
        const std::string subfolder = folder + "/" + prefix;
        std::vector<std::string> names;
        ops.list_folder(subfolder.c_str(), &names);
        for (const std::string& name : names) {
            const Named kind = kind_of_name(name);
            FoundFile file;
            file.path = subfolder + "/" + name;
            struct stat status{};
            if (kind == Named::neither || ops.status_of_path(file.path.c_str(), &status) != 0) continue;
            if (!S_ISREG(status.st_mode)) continue;
            file.digest = digest_of(prefix + name.substr(0, name_digits));
            file.bytes = status.st_size;
            file.stamp = std::int64_t{status.st_mtim.tv_sec} * 1'000'000'000 + status.st_mtim.tv_nsec;
            file.temporary = kind == Named::temporary;
            found.push_back(std::move(file));
        }
    }
    return found;
}

int remove_leftovers(const std::vector<FoundFile>& files, const FileOps& ops) {
    int removed = 0;
    const std::int64_t now = ops.now();
    for (const FoundFile& file : files) {
        if (!file.temporary || now - file.stamp < leftover_age) continue;
        removed += ops.remove_file(file.path.c_str()) == 0;
    }
    return removed;
}

}  // namespace tessera::runtime
