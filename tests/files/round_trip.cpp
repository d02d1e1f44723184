// Files written by the writer, and files laid out by hand, are read back byte for byte.
#include <catch2/catch.hpp>

#include "runtime/safetensors.hpp"
#include "tests/files/support.hpp"

namespace tessera::files_test {
namespace {

struct TypeRow {
    const char* name;
    int bits;
};

// The 22 names of the format and their widths, from its description.
constexpr TypeRow all_types[] = {{"BOOL", 8},        {"F4", 4},      {"F6_E2M3", 6}, {"F6_E3M2", 6}, {"U8", 8},
                                 {"I8", 8},          {"F8_E5M2", 8}, {"F8_E4M3", 8}, {"F8_E8M0", 8}, {"F8_E4M3FNUZ", 8},
                                 {"F8_E5M2FNUZ", 8}, {"I16", 16},    {"U16", 16},    {"F16", 16},    {"BF16", 16},
                                 {"I32", 32},        {"U32", 32},    {"F32", 32},    {"C64", 64},    {"F64", 64},
                                 {"I64", 64},        {"U64", 64}};

std::string text_of(const std::vector<std::byte>& bytes) {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::string pattern(std::size_t size, int seed) {
    std::string text(size, '\0');
    for (std::size_t i = 0; i < size; ++i)
        text[i] = static_cast<char>((i * 31 + static_cast<std::size_t>(seed) * 17) % 251);
    return text;
}

TEST_CASE("all 22 types are read, written and have their width") {
    const Folder folder;
    std::vector<NewTensor> tensors;
    for (const TypeRow& row : all_types) {
        const auto type = stored_type(row.name);
        REQUIRE(type);
        CHECK(std::string(name_of(*type)) == row.name);
        CHECK(bits_of(*type) == row.bits);
        tensors.push_back({std::string("t.") + row.name, *type, {3, 8}});
    }
    CHECK_FALSE(stored_type("F8"));
    SafetensorsWriter writer(folder.file("all"), tensors, {{"format", "pt"}, {"quote \" \n", "\xc3\xa4"}}, false);
    int seed = 0;
    for (const TypeRow& row : all_types) {
        const std::string bytes = pattern(static_cast<std::size_t>(3 * row.bits), ++seed);
        writer.append(std::string("t.") + row.name, bytes_of(bytes.substr(0, 5)));
        writer.append(std::string("t.") + row.name, bytes_of(bytes.substr(5)));
    }
    CHECK_FALSE(std::filesystem::exists(folder.file("all")));  // not before it is complete
    writer.finish();

    const SafetensorsFile file = SafetensorsFile::open(folder.file("all"));
    CHECK(file.tensors().size() == 22);
    CHECK(file.metadata() == StoredMetadata{{"format", "pt"}, {"quote \" \n", "\xc3\xa4"}});
    seed = 0;
    for (const TypeRow& row : all_types) {
        const StoredTensor* found = file.find(std::string("t.") + row.name);
        REQUIRE(found);
        CHECK(found->shape == std::vector<std::int64_t>{3, 8});
        CHECK(found->begin * 8 % static_cast<std::uint64_t>(row.bits) == 0);
        CHECK(text_of(file.read(*found)) == pattern(static_cast<std::size_t>(3 * row.bits), ++seed));
    }
    CHECK(folder.entries() == 1);
}

TEST_CASE("a file laid out by hand is read") {
    const Folder folder;
    put(folder.file("hand"), with_header("{\"b\":{\"dtype\":\"I16\",\"shape\":[2],\"data_offsets\":[3,7]},"
                                         "\"z\":{\"dtype\":\"F32\",\"shape\":[0,5],\"data_offsets\":[3,3]},"
                                         "\"s\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[7,8]},"
                                         "\"a\":{\"data_offsets\":[0,3],\"shape\":[3,1],\"dtype\":\"U8\"}}   ",
                                         8));
    const SafetensorsFile file = SafetensorsFile::open(folder.file("hand"));
    REQUIRE(file.tensors().size() == 4);
    CHECK(file.tensors()[0].name == "a");
    CHECK(file.tensors()[1].name == "z");
    CHECK(describe(file.tensors()[1]) == "F32 [0, 5]");
    CHECK(file.read(file.tensors()[1]).empty());
    CHECK(text_of(file.read(*file.find("b"))) == with_header("", 8).substr(8 + 3, 4));
    CHECK(text_of(file.read(*file.find("s"))) == with_header("", 8).substr(8 + 7, 1));
    std::byte one[1];
    file.read(*file.find("a"), 2, one);
    CHECK(static_cast<char>(one[0]) == with_header("", 8)[8 + 2]);
    CHECK(usage_error([&] { file.read(*file.find("a"), 3, one); }) ==
          folder.file("hand") + ": 1 bytes from 3 on lie outside the tensor \"a\" of 3 bytes; ask for less");
    CHECK(file.find("c") == nullptr);
    CHECK(file.metadata().empty());
}

TEST_CASE("an empty file of no tensors makes the round trip") {
    const Folder folder;
    SafetensorsWriter(folder.file("none"), {}, {}, false).finish();
    CHECK(get(folder.file("none")) == with_header("{}      ", 0));
    CHECK(SafetensorsFile::open(folder.file("none")).tensors().empty());
}

TEST_CASE("every element type has a stored type") {
    for (int i = 0; i < element_count; ++i) {
        const auto element = static_cast<Element>(i);
        const auto back = element_of(stored_type_of(element));
        REQUIRE(back);
        if (element == Element::tf32) {
            CHECK(*back == Element::f32);
        } else if (element == Element::e5m6) {
            CHECK(*back == Element::u8);
        } else {
            CHECK(*back == element);
        }
    }
}

}  // namespace
}  // namespace tessera::files_test
