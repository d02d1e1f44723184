#include "tests/support/golden_file.hpp"

#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>

namespace tessera::test {
namespace {

using nlohmann::json;

GoldenFile parse(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    const std::string all{std::istreambuf_iterator<char>(in), {}};
    std::uint64_t length = 0;
    if (all.size() < sizeof length) throw std::runtime_error("no header in " + path);
    std::memcpy(&length, all.data(), sizeof length);
    const std::size_t start = sizeof length + length;
    const json header = json::parse(all.substr(sizeof length, length));

    GoldenFile file;
    const json& meta = header.at("__metadata__");
    file.kernel = meta.at("kernel").get<std::string>();
    const json options = json::parse(meta.at("args").get<std::string>());
    for (const auto& [key, value] : options.items())
        file.options[key] = value.is_string() ? value.get<std::string>() : value.dump();
    for (const auto& [name, entry] : header.items()) {
        if (name == "__metadata__") continue;
        const auto range = entry.at("data_offsets").get<std::vector<std::size_t>>();
        GoldenTensor t{entry.at("dtype").get<std::string>(), entry.at("shape").get<std::vector<std::int64_t>>(), {}};
        t.bytes.assign(all.begin() + static_cast<std::ptrdiff_t>(start + range.at(0)),
                       all.begin() + static_cast<std::ptrdiff_t>(start + range.at(1)));
        file.tensors[name] = std::move(t);
    }
    return file;
}

}  // namespace

std::int64_t GoldenFile::number(const std::string& option) const { return std::stoll(options.at(option)); }

std::string GoldenFile::text(const std::string& option) const {
    const auto found = options.find(option);
    return found == options.end() ? "" : found->second;
}

std::vector<GoldenFile> golden_files(const std::string& kernel) {
    std::set<std::string> paths;
    for (const auto& entry : std::filesystem::directory_iterator(TESSERA_GOLDEN_DIR)) {
        const std::string name = entry.path().filename().string();
        if (name.rfind(kernel + "-", 0) == 0) paths.insert(entry.path().string());
    }
    std::vector<GoldenFile> files;
    for (const auto& path : paths) files.push_back(parse(path));
    return files;
}

}  // namespace tessera::test
