// Keys as another implementation makes them (data/golden_keys.py), so that a key never changes by accident: that would
// throw away every cache and every bundle.
#include <catch2/catch.hpp>

#include "runtime/cache/bundle_index.hpp"
#include "runtime/cache/cache_key.hpp"
#include "runtime/json.hpp"
#include "tests/cache/support.hpp"

using namespace tessera;
using namespace tessera::runtime;

namespace {

std::string text_of(const json::Value& object, const char* name) {
    const json::Value* member = object.find(name);
    REQUIRE(member);
    return *member->as<std::string>();
}

}  // namespace

TEST_CASE("key: every key of the golden file") {
    const auto file = std::filesystem::path(TESSERA_CACHE_TEST_DATA) / "golden_keys.json";
    json::Value cases;
    std::string why;
    REQUIRE(json::parse(test::read_file(file), {}, cases, why));
    int count = 0;
    for (const json::Value& golden : *cases.as<json::Value::Array>()) {
        INFO(text_of(golden, "name"));
        std::vector<std::string> options;
        for (const json::Value& option : *golden.find("options")->as<json::Value::Array>())
            options.push_back(*option.as<std::string>());
        const CacheKey key =
            make_key(text_of(golden, "cuda"), text_of(golden, "target"), text_of(golden, "compiler"), options);
        CHECK(key.text == text_of(golden, "text"));
        CHECK(key.hex() == text_of(golden, "key"));
        CHECK(hex(bundle_name(key.text)) == text_of(golden, "bundle_name"));
        CHECK(key_of_text(key.text) == key);
        ++count;
    }
    CHECK(count == 11);
}

TEST_CASE("key: the lines of its text") {
    const std::string text = make_key("int a;", "sm_90a", "build-id:1", {}).text;
    CHECK(line_of_key(text, "target") == "sm_90a");
    CHECK(line_of_key(text, "compiler") == "build-id:1");
    CHECK(line_of_key(text, "source").size() == 32);
    CHECK(line_of_key(text, "option").empty());
    CHECK(line_of_key(text, "tar").empty());
    CHECK(portable_text("format 2\ntarget t\ncompiler c\nsource s") == "format 2\ntarget t\nsource s");
    CHECK(portable_text("format 2\ncompiler c") == "format 2");
    CHECK(portable_text("format 2") == "format 2");
}
