#include "runtime/settings.hpp"

#include <catch2/catch.hpp>
#include <set>

#include "dsl/base/error.hpp"
#include "runtime/cache/cubin_cache.hpp"
#include "tests/cache/support.hpp"

using namespace tessera;
using namespace tessera::runtime;
using test::ScopedEnvironment;

TEST_CASE("settings: the table names every setting once, with a meaning") {
    std::set<std::string> names;
    for (const Setting& row : settings_table()) {
        INFO(row.name);
        CHECK(std::string(row.name).starts_with("TESSERA_"));
        CHECK(std::string(row.meaning).size() > 10);
        CHECK(names.insert(row.name).second);
        if (row.kind != Setting::Kind::on_off) continue;
        CHECK((row.default_value == std::string("on") || row.default_value == std::string("off")));
        CHECK(description(row).starts_with("on or off (or 1 or 0): "));
    }
    for (const char* name : {"TESSERA_CACHE", "TESSERA_CACHE_DIR", "TESSERA_CACHE_SIZE", "TESSERA_CACHE_BUNDLE",
                             "TESSERA_NVRTC", "TESSERA_LINEINFO", "TESSERA_KEEP_SOURCE", "TESSERA_MEMORY_CACHE",
                             "TESSERA_CUPTI", "TESSERA_HOST_CHECK", "TESSERA_HOST_WORKERS", "TESSERA_VERBOSE"}) {
        CHECK(names.contains(name));
    }
}

TEST_CASE("settings: values are read at each look-up, empty is unset") {
    ScopedEnvironment clean{{"TESSERA_HOST_WORKERS", ""}, {"TESSERA_CACHE_SIZE", ""}, {"TESSERA_KEEP_SOURCE", ""}};
    CHECK(setting_count("TESSERA_HOST_WORKERS") == 0);
    CHECK(setting_bytes("TESSERA_CACHE_SIZE") == 1073741824);
    CHECK_FALSE(setting_path("TESSERA_KEEP_SOURCE"));
    ScopedEnvironment set{{"TESSERA_HOST_WORKERS", "7"}, {"TESSERA_KEEP_SOURCE", "kept"}};
    CHECK(setting_count("TESSERA_HOST_WORKERS") == 7);
    CHECK(setting_path("TESSERA_KEEP_SOURCE") == std::filesystem::current_path() / "kept");
}

TEST_CASE("settings: switches and sizes in all their spellings") {
    const std::pair<const char*, bool> switches[] = {{"on", true},   {"1", true},  {"TRUE", true},   {"Yes", true},
                                                     {"off", false}, {"0", false}, {"False", false}, {"no", false}};
    for (const auto& [text, expected] : switches) {
        ScopedEnvironment set{{"TESSERA_VERBOSE", text}};
        CHECK(setting_on("TESSERA_VERBOSE") == expected);
    }
    const std::pair<const char*, std::int64_t> sizes[] = {
        {"0", 0}, {"12", 12}, {"3K", 3072}, {"5m", 5242880}, {"2G", 2147483648}, {"8589934591G", 9223372035781033984}};
    for (const auto& [text, expected] : sizes) {
        ScopedEnvironment set{{"TESSERA_CACHE_SIZE", text}};
        CHECK(setting_bytes("TESSERA_CACHE_SIZE") == expected);
    }
}

TEST_CASE("settings: a bad value is a UsageError that names the setting, the value and the cure") {
    using Catch::Matchers::Contains;
    for (const char* text : {"maybe", "2", "onn", " on"}) {
        ScopedEnvironment set{{"TESSERA_CACHE", text}};
        CHECK_THROWS_AS(CacheSettings::from_environment(), UsageError);
        CHECK_THROWS_WITH(setting_on("TESSERA_CACHE"),
                          Contains("TESSERA_CACHE is \"" + std::string(text) + "\"") &&
                              Contains("on or off is expected; 1, true and yes, or 0, false and no, mean the same") &&
                              Contains("unset it"));
    }
    for (const char* text : {"G", "-1", "1.5G", "1T", "8589934592G", "99999999999999999999", "1GB", "1 G"}) {
        ScopedEnvironment set{{"TESSERA_CACHE_SIZE", text}};
        INFO(text);
        CHECK_THROWS_WITH(setting_bytes("TESSERA_CACHE_SIZE"),
                          Contains("TESSERA_CACHE_SIZE") && Contains("as in 512M"));
    }
    for (const char* text : {"-1", "two", "65537", "1.0"}) {
        ScopedEnvironment set{{"TESSERA_HOST_WORKERS", text}};
        CHECK_THROWS_AS(setting_count("TESSERA_HOST_WORKERS"), UsageError);
    }
    ScopedEnvironment nothing{{"TESSERA_CACHE_SIZE", "0"}};
    CHECK_THROWS_WITH(CacheSettings::from_environment(), Contains("TESSERA_CACHE=off"));
}

TEST_CASE("settings: a name outside of the tables is an internal error") {
    CHECK_THROWS_AS(environment("TESSERA_NO_SUCH_SETTING"), InternalError);
    CHECK_THROWS_AS(setting_on("HOME"), InternalError);
}

TEST_CASE("settings: where the cache lives") {
    ScopedEnvironment clean{{"TESSERA_CACHE_DIR", ""}, {"XDG_CACHE_HOME", ""}, {"HOME", "/home/someone"}};
    CHECK(CacheSettings::from_environment().folder == "/home/someone/.cache/tessera");
    {
        ScopedEnvironment xdg{{"XDG_CACHE_HOME", "/var/tmp/caches"}};
        CHECK(CacheSettings::from_environment().folder == "/var/tmp/caches/tessera");
        ScopedEnvironment own{{"TESSERA_CACHE_DIR", "/scratch/kernels"}};
        CHECK(CacheSettings::from_environment().folder == "/scratch/kernels");
    }
    ScopedEnvironment relative{{"XDG_CACHE_HOME", "caches"}};
    CHECK(CacheSettings::from_environment().folder == "/home/someone/.cache/tessera");
}
