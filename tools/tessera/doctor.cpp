#include <fmt/format.h>

#include "bench/cupti/find.hpp"
#include "bench/cupti/recorder.hpp"
#include "dsl/base/error.hpp"
#include "runtime/cache/bundle.hpp"
#include "runtime/cache/cubin_cache.hpp"
#include "runtime/cache/file_ops.hpp"
#include "runtime/cache/folder.hpp"
#include "runtime/device.hpp"
#include "runtime/driver/driver.hpp"
#include "runtime/nvrtc/find.hpp"
#include "runtime/nvrtc/nvrtc.hpp"
#include "runtime/settings.hpp"
#include "tools/tessera/commands.hpp"
#include "tools/tessera/disassembler.hpp"

namespace tessera::tool {

namespace {

void line(const std::string& topic, const std::string& text) { fmt::print("{:<14} {}\n", topic, text); }

/// A section whose finding may itself be an error that the user asked the doctor about.
template <class Section>
void section(const std::string& topic, Section&& print) {
    try {
        print();
    } catch (const Error& error) {
        line(topic, error.what());
    }
}

void print_driver() {
    const runtime::Driver& driver = runtime::driver();
    if (!driver.usable) {
        line("driver", driver.problem);
        line("devices", "the host only: kernels run on the CPU");
        return;
    }
    line("driver", fmt::format("{}, {}", driver.path, runtime::version_text(driver.version)));
    for (int i = 0; i < driver.device_count; ++i) {
        const std::string topic = fmt::format("cuda:{}", i);
        section(topic, [&] {
            const Device device = Device::cuda(i);
            line(topic, fmt::format("{}, {}, {} multiprocessors", device.name(), device.target().arch(),
                                    device.target().multiprocessors));
        });
    }
}

void print_nvrtc() {
    const runtime::NvrtcSearch& search = runtime::nvrtc_search();
    if (!search.path) {
        line("NVRTC", search.problem);
        for (const std::string& folder : search.looked) line("", "looked in " + folder);
        return;
    }
    line("NVRTC", search.path->string());
    line("", search.identity);
    const runtime::Nvrtc& nvrtc = runtime::Nvrtc::loaded();
    std::string architectures;
    for (int sm : nvrtc.architectures()) architectures += fmt::format(" {}", sm);
    line("", fmt::format("{}, compiles for SM{}", runtime::version_text(nvrtc.version()), architectures));
    const runtime::Driver& driver = runtime::driver();
    if (driver.usable && nvrtc.version() / 1000 > driver.version / 1000) {
        line("",
             fmt::format("it is newer than the driver ({}), which may not load its kernels; update the driver or set "
                         "TESSERA_NVRTC to an older one",
                         runtime::version_text(driver.version)));
    }
}

/// The bench's clock; without it the bench takes another, so that its absence is no fault.
void print_cupti() {
    const bench::cupti::LibrarySearch search = bench::cupti::search_library();
    if (!search.path) {
        line("CUPTI", search.problem);
        for (const std::string& folder : search.looked) line("", "looked in " + folder);
        line("", "needed for `tessera bench --clock cupti` only; without it the bench times replays of graphs");
        return;
    }
    line("CUPTI", search.path->string());
    line("", bench::cupti::Recorder(*search.path).name());
}

void print_cache() {
    const runtime::CubinCache cache;
    const std::string folder = cache.settings().folder.string();
    if (!cache.settings().enabled) line("cache", "switched off (TESSERA_CACHE)");
    if (folder.empty()) {
        line("cache", "no folder: there is no home; set TESSERA_CACHE_DIR");
        return;
    }
    line("cache", folder);
    std::string why;
    const runtime::FolderState state = runtime::inspect_folder(folder, runtime::real_file_ops(), &why);
    if (state == runtime::FolderState::missing) line("", "not there yet; the first compiled kernel makes it");
    if (state == runtime::FolderState::refused) line("", why);
    if (state != runtime::FolderState::ready) return;
    std::int64_t bytes = 0;
    const auto entries = cache.list();
    for (const runtime::CacheEntry& entry : entries) bytes += entry.bytes;
    line("", fmt::format("{} entries, {} of at most {} bytes", entries.size(), bytes, cache.settings().most_bytes));
}

void print_bundle() {
    runtime::Bundle bundle(runtime::Bundle::path_from_environment());
    if (bundle.path().empty()) return;
    const std::string& problem = bundle.problem();
    line("bundle", problem.empty() ? bundle.path() : problem);
    if (!problem.empty()) return;
    std::int64_t kernels = 0;
    const std::int64_t damaged = bundle.each([&kernels](const runtime::KeptEntry&) { ++kernels; });
    line("", fmt::format("{} kernels, {} damaged", kernels, damaged));
}

void print_settings(const char* title, std::span<const runtime::Setting> table) {
    fmt::print("\n{}\n", title);
    for (const runtime::Setting& setting : table) {
        const auto value = runtime::environment(setting.name);
        const std::string standard = *setting.default_value ? setting.default_value : "unset";
        fmt::print("  {:<22} {}\n", setting.name, value ? *value : standard + " (default)");
        fmt::print("  {:<22}   {}\n", "", runtime::description(setting));
        if (const std::string problem = runtime::setting_problem(setting); !problem.empty())
            fmt::print("  {:<22}   WRONG: {}\n", "", problem);
    }
}

}  // namespace

int doctor() {
    section("driver", print_driver);
    section("NVRTC", print_nvrtc);
    section("CUPTI", print_cupti);
    section("cache", print_cache);
    section("bundle", print_bundle);
    const auto disassembler = find_disassembler();
    line("disassembler", disassembler ? disassembler->string() : "none (needed for `show --stage sass` only)");
    print_settings("settings (environment variables)", runtime::settings_table());
    for (const std::string& name : runtime::unknown_settings())
        fmt::print("  {:<22} is no setting, and nobody reads it; correct the name, or unset it\n", name);
    print_settings("variables of the system that are read too", runtime::system_variables());
    return 0;
}

}  // namespace tessera::tool
