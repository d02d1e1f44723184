#include "runtime/cache/bundle.hpp"

#include <algorithm>
#include <system_error>
#include <utility>

#include "runtime/cache/entry_file.hpp"
#include "runtime/cache/folder.hpp"
#include "runtime/cache/trust.hpp"
#include "runtime/cache/warning.hpp"
#include "runtime/settings.hpp"

namespace tessera::runtime {

namespace fs = std::filesystem;

namespace {

std::string folder_above(const std::string& path) {
    const std::size_t slash = path.find_last_of('/');
    if (slash == std::string::npos) return ".";
    return slash == 0 ? "/" : path.substr(0, slash);
}

std::string reason(int error) { return " (" + std::generic_category().message(error) + ")"; }

}  // namespace

fs::path Bundle::path_from_environment() {
    if (auto path = setting_path("TESSERA_CACHE_BUNDLE")) return *path;
    std::error_code error;
    const fs::path beside = fs::read_symlink("/proc/self/exe", error).parent_path() / "tessera.bundle";
    return !error && fs::exists(beside, error) ? beside : fs::path();
}

Bundle::Bundle(fs::path path, const FileOps& ops) : path_(path.string()), ops_(ops), file_(-1, ops) {
    while (path_.size() > 1 && path_.back() == '/') path_.pop_back();
}

void Bundle::open() {
    if (path_.empty()) return;
    std::error_code unresolved;
    const fs::path resolved = fs::canonical(path_, unresolved);  // a link may lead to a bundle; that one is examined
    place_ = unresolved ? path_ : resolved.string();
    struct stat status{};
    if (ops_.status_of_path(place_.c_str(), &status) != 0) {
        problem_ = "the bundle " + path_ + " cannot be opened" + reason(errno);
        return;
    }
    // The folder itself, or the one in which the file can be replaced.
    is_folder_ = S_ISDIR(status.st_mode);
    const std::string folder = is_folder_ ? place_ : folder_above(place_);
    const FolderState state = inspect_folder(folder, ops_, &problem_, Trust::own_or_root, "the folder of the bundle");
    if (state == FolderState::missing) problem_ = "the bundle " + path_ + " has just gone";
    if (state == FolderState::ready && !is_folder_) open_file();
}

void Bundle::open_file() {
    OpenFile file = OpenFile::to_read(place_, ops_);
    struct stat status{};
    if (!file.is_open() || ops_.status(file.descriptor(), &status) != 0) {
        problem_ = "the bundle " + path_ + " cannot be opened" + reason(errno);
        return;
    }
    if (const std::string why = distrust(status, Trust::own_or_root, ops_); !why.empty()) {
        problem_ = "the bundle " + path_ + " " + why;
        return;
    }
    problem_ = "the bundle " + path_ + " is damaged, or of another version of Tessera (export it anew)";
    const auto size = static_cast<std::uint64_t>(status.st_size);
    std::vector<std::byte> bytes(bundle_header_bytes);
    if (!S_ISREG(status.st_mode) || file.read_at(0, bytes) != bytes.size()) return;
    const auto header = decode_bundle_header(bytes, size);
    if (!header) return;
    bytes.resize(static_cast<std::size_t>(header->index_bytes()));
    if (file.read_at(header->index_offset, bytes) != bytes.size()) return;
    auto items = decode_bundle_index(*header, bytes);
    if (!items) return;
    items_ = std::move(*items);
    file_ = std::move(file);
    problem_.clear();
}

const std::string& Bundle::problem() {
    std::call_once(once_, [this] { open(); });
    return problem_;
}

std::vector<std::byte> Bundle::bytes_of(const BundleItem& item) const {
    if (item.bytes > most_entry_bytes) return {};
    std::vector<std::byte> bytes(static_cast<std::size_t>(item.bytes));
    bytes.resize(file_.read_at(item.offset, bytes));
    return bytes;
}

/// Empty if it has no such entry, or none that can be read.
std::vector<std::byte> Bundle::bytes_of(const Digest& name) const {
    if (is_folder_) return read_entry_file(entry_path(place_, name), ops_, Trust::own_or_root).bytes;
    const auto at = std::lower_bound(items_.begin(), items_.end(), name,
                                     [](const BundleItem& item, const Digest& wanted) { return item.name < wanted; });
    return at != items_.end() && at->name == name ? bytes_of(*at) : std::vector<std::byte>();
}

std::optional<CachedCubin> Bundle::find(const CacheKey& key) {
    if (path_.empty()) return std::nullopt;
    if (!problem().empty()) {
        warn_about_bundle(problem_);
        return std::nullopt;
    }
    const std::vector<std::byte> bytes = bytes_of(bundle_name(key.text));
    if (bytes.empty()) return std::nullopt;
    auto entry = decode_entry(bytes);
    if (entry && portable_text(entry->key.text) == portable_text(key.text)) return std::move(entry->compiled);
    warn_about_bundle("an entry of the bundle " + path_ + " is damaged, " + key.hex().substr(0, 12) +
                      " (export it anew)");
    return std::nullopt;
}

std::int64_t Bundle::each(const std::function<void(const KeptEntry&)>& take) {
    if (path_.empty() || !problem().empty()) return 0;
    std::int64_t others = 0;
    const auto offer = [&](const std::vector<std::byte>& bytes) {
        if (const auto entry = decode_entry(bytes)) {
            take(*entry);
        } else {
            ++others;
        }
    };
    for (const BundleItem& item : items_) offer(bytes_of(item));
    if (!is_folder_) return others;
    auto files = scan_folder(place_, ops_);
    std::sort(files.begin(), files.end(), [](const FoundFile& a, const FoundFile& b) { return a.digest < b.digest; });
    for (const FoundFile& file : files) {
        if (!file.temporary) offer(read_entry_file(file.path, ops_, Trust::own_or_root).bytes);
    }
    return others;
}

}  // namespace tessera::runtime
