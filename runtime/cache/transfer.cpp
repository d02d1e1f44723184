#include "runtime/cache/transfer.hpp"

#include <algorithm>
#include <map>
#include <memory>
#include <system_error>
#include <utility>

#include "dsl/base/error.hpp"
#include "runtime/cache/entry_file.hpp"
#include "runtime/cache/folder.hpp"
#include "runtime/output_file.hpp"

namespace tessera::runtime {

namespace fs = std::filesystem;

namespace {

/// Where the exported entries go.
class Destination {
public:
    virtual ~Destination() = default;
    virtual void add(const Digest& name, std::span<const std::byte> entry) = 0;
    virtual void finish() {}
};

class BundleFile : public Destination {
public:
    BundleFile(const std::string& path, bool overwrite) : path_(path), file_(path, overwrite) {}
    void add(const Digest& name, std::span<const std::byte> entry) override {
        file_.write_at(end_, entry);
        items_.push_back({name, end_, entry.size()});
        end_ += entry.size();
    }
    void finish() override {
        std::sort(items_.begin(), items_.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
        const BundleHeader header{static_cast<std::uint32_t>(items_.size()), end_};
        file_.write_at(0, encode_bundle_header(header));
        file_.write_at(end_, encode_bundle_index(header, items_));
        file_.publish();
        std::error_code ignored;  // whatever the umask: nobody loads what others can write
        fs::permissions(path_, fs::perms::group_write | fs::perms::others_write, fs::perm_options::remove, ignored);
    }

private:
    std::string path_;
    OutputFile file_;
    std::vector<BundleItem> items_;
    std::uint64_t end_ = bundle_header_bytes;
};

class BundleFolder : public Destination {
public:
    explicit BundleFolder(std::string path) : path_(std::move(path)) {}
    void add(const Digest& name, std::span<const std::byte> entry) override {
        std::string why;
        if (!write_entry_file(path_, name, entry, real_file_ops(), &why))
            throw UsageError("the export was not finished: " + why + "; choose a folder that you may write to");
        using fs::perms;
        const perms file = perms::owner_read | perms::owner_write | perms::group_read | perms::others_read;
        const perms folder = file | perms::owner_exec | perms::group_exec | perms::others_exec;
        std::error_code ignored;
        fs::permissions(entry_path(path_, name), file, ignored);
        fs::permissions(subfolder_of(path_, name), folder, ignored);
    }
    void finish() override {
        std::error_code ignored;
        fs::permissions(path_,
                        fs::perms::group_read | fs::perms::group_exec | fs::perms::others_read | fs::perms::others_exec,
                        fs::perm_options::add, ignored);
    }

private:
    std::string path_;
};

std::unique_ptr<Destination> destination(const std::string& path, bool overwrite) {
    std::error_code error;
    if (path.ends_with('/') || fs::is_directory(path, error)) {
        const std::string folder = path.substr(0, path.find_last_not_of('/') + 1);
        return std::make_unique<BundleFolder>(folder.empty() ? "/" : folder);
    }
    return std::make_unique<BundleFile>(path, overwrite);
}

}  // namespace

ExportResult export_bundle(const CubinCache& cache, const std::string& path, bool overwrite) {
    ExportResult result;
    std::map<Digest, std::vector<std::string>> files;  // by name in the bundle; most recently used first
    for (const CacheEntry& entry : cache.list()) {
        if (entry.key_text.empty()) {
            ++result.unusable;
        } else {
            files[bundle_name(entry.key_text)].push_back(entry.path);
        }
    }
    std::unique_ptr<Destination> to;  // made for the first entry, so that an empty cache leaves nothing behind
    for (const auto& [name, paths] : files) {
        bool is_kept = false;
        for (const std::string& file : paths) {
            const auto bytes = read_entry_file(file, real_file_ops()).bytes;
            const auto entry = decode_entry(bytes);
            if (!entry || bundle_name(entry->key.text) != name) {
                ++result.unusable;
                continue;
            }
            if (std::exchange(is_kept, true)) {
                ++result.same_kernel;
                continue;
            }
            if (!to) to = destination(path, overwrite);
            to->add(name, bytes);
            ++result.exported;
            result.bytes += static_cast<std::int64_t>(bytes.size());
        }
    }
    if (!to)
        throw UsageError("the cubin cache " + cache.settings().folder.string() +
                         " holds nothing to export; fill it by running the program or with `tessera cache warm`");
    to->finish();
    return result;
}

ImportResult import_bundle(CubinCache& cache, const std::string& path) {
    Bundle bundle(path);
    if (path.empty() || !bundle.problem().empty())
        throw UsageError((path.empty() ? "no bundle is named" : bundle.problem()) +
                         "; name a file or folder that `tessera cache export` made");
    ImportResult result;
    result.unsound = bundle.each([&](const KeptEntry& entry) {
        const CacheStats before = cache.stats();
        if (cache.load(entry.key)) {
            ++result.there;
            return;
        }
        cache.publish(entry.key, entry.compiled);
        ++(cache.stats().published > before.published ? result.imported : result.failed);
    });
    return result;
}

}  // namespace tessera::runtime
