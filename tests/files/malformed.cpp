// Every way in which a file can fail to be safetensors has a sentence of its own.
#include <catch2/catch.hpp>
#include <sys/stat.h>

#include "runtime/safetensors.hpp"
#include "tests/files/support.hpp"

namespace tessera::files_test {
namespace {

std::string error_of(const std::string& path) {
    return usage_error([&] { SafetensorsFile::open(path); });
}

struct Malformed {
    std::string file;      // its whole bytes
    std::string sentence;  // what follows "<path>: "
};

std::string tensor(const std::string& name, const std::string& dtype, const std::string& shape,
                   const std::string& offsets) {
    return "\"" + name + "\":{\"dtype\":\"" + dtype + "\",\"shape\":" + shape + ",\"data_offsets\":" + offsets + "}";
}

constexpr const char* again = "; fetch or write the file again";

const std::vector<Malformed>& malformed() {
    static const std::vector<Malformed> cases = {
        {"", "the file is empty; fetch or write it again"},
        {"abc", "the file has 3 bytes and not even the 8 of its header's length; fetch or write it again"},
        {with_length(100'000'001, "{}", 0),
         "its header would be 100000001 bytes long, more than the format's 100000000, so this is no safetensors file; "
         "check what was given"},
        {with_length(UINT64_MAX, "{}", 0),
         "its header would be 18446744073709551615 bytes long, more than the format's 100000000, so this is no "
         "safetensors file; check what was given"},
        {with_length(3, "{}", 0), "its header of 3 bytes is cut off: the file has only 10; fetch or write it again"},
        {with_header("", 4), std::string("it is no safetensors file: its header does not begin with '{'") + again},
        {with_header("[1]", 0), std::string("it is no safetensors file: its header does not begin with '{'") + again},
        {with_header("{\"a\":", 0), std::string("its header is not valid: the text ends too early") + again},
        {with_header("{\"a\";1}", 0), std::string("its header is not valid: it breaks the syntax at byte 4") + again},
        {with_header("{} x", 0), std::string("its header is not valid: it breaks the syntax at byte 3") + again},
        {with_header("{\"a\":NaN}", 0),
         std::string("its header is not valid: NaN and Infinity are no JSON (at byte 5)") + again},
        {with_header("{\"a\":-Infinity}", 0),
         std::string("its header is not valid: NaN and Infinity are no JSON (at byte 5)") + again},
        {with_header("{\"a\xff\":1}", 0),
         std::string("its header is not valid: it breaks the syntax at byte 3") + again},
        {with_header("{\"a\":[[[[[[[[1]]]]]]]]}", 0),
         std::string("its header is not valid: its brackets are nested more than 8 deep") + again},
        {with_header("{" + tensor("a", "U8", "[1]", "[0,1]") + "," + tensor("a", "U8", "[1]", "[1,2]") + "}", 2),
         std::string("its header is not valid: the name \"a\" stands twice") + again},
        {with_header("{\"a\":{\"dtype\":\"U8\",\"dtype\":\"I8\",\"shape\":[1],\"data_offsets\":[0,1]}}", 1),
         std::string("its header is not valid: the name \"dtype\" stands twice") + again},
        {with_header("{\"a\":7}", 0),
         std::string("the tensor \"a\" is described by something else than an object") + again},
        {with_header("{\"a\":{\"shape\":[1],\"data_offsets\":[0,1]}}", 1),
         std::string("the tensor \"a\" has no dtype") + again},
        {with_header("{\"a\":{\"dtype\":\"U8\",\"data_offsets\":[0,1]}}", 1),
         std::string("the tensor \"a\" has no list \"shape\"") + again},
        {with_header("{\"a\":{\"dtype\":\"U8\",\"shape\":[1]}}", 1),
         std::string("the tensor \"a\" has no list \"data_offsets\"") + again},
        {with_header("{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1],\"x\":1}}", 1),
         std::string("the tensor \"a\" has the field \"x\", which the format does not know") + again},
        {with_header("{" + tensor("a", "F9", "[1]", "[0,1]") + "}", 1),
         "the tensor \"a\" has the dtype \"F9\", which is none of the format's 22 types; convert it to one of them, "
         "such "
         "as F32 or BF16"},
        {with_header("{" + tensor("a", "U8", "[-1]", "[0,1]") + "}", 1),
         std::string("the tensor \"a\" has the negative number -1 in its shape") + again},
        {with_header("{" + tensor("a", "U8", "[1.5]", "[0,1]") + "}", 1),
         std::string("the tensor \"a\" has something else than a whole number below 2^63 in its shape") + again},
        {with_header("{" + tensor("a", "U8", "[9223372036854775808]", "[0,1]") + "}", 1),
         std::string("the tensor \"a\" has something else than a whole number below 2^63 in its shape") + again},
        {with_header("{" + tensor("a", "F32", "[4294967296,4294967296]", "[0,4]") + "}", 4),
         std::string("the tensor \"a\" (F32 [4294967296, 4294967296]) is larger than any file can be") + again},
        {with_header("{" + tensor("a", "F32", "[2]", "[0,7]") + "}", 7),
         std::string("the tensor \"a\" (F32 [2]) needs 8 bytes, but its offsets hold 7") + again},
        {with_header("{" + tensor("a", "F4", "[3]", "[0,2]") + "}", 2),
         std::string("the tensor \"a\" (F4 [3]) does not fill whole bytes") + again},
        {with_header("{" + tensor("a", "U8", "[1]", "[0]") + "}", 1),
         std::string("the tensor \"a\" has 1 data_offsets instead of 2") + again},
        {with_header("{" + tensor("a", "U8", "[1]", "[1,0]") + "}", 1),
         std::string("the tensor \"a\" ends at byte 0, before its begin 1") + again},
        {with_header("{" + tensor("a", "U8", "[9]", "[0,9]") + "}", 8),
         std::string("the tensor \"a\" ends at byte 9 of the tensors, but the file holds only 8: it is cut off") +
             again},
        {with_header("{" + tensor("a", "U8", "[4]", "[0,4]") + "," + tensor("b", "U8", "[4]", "[5,9]") + "}", 9),
         std::string("there is a hole of 1 bytes before the tensor \"b\"") + again},
        {with_header("{" + tensor("b", "U8", "[4]", "[4,8]") + "}", 8),
         std::string("there is a hole of 4 bytes before the tensor \"b\"") + again},
        {with_header("{" + tensor("a", "U8", "[4]", "[0,4]") + "," + tensor("b", "U8", "[4]", "[3,7]") + "}", 7),
         std::string("the tensor \"b\" overlaps the tensor \"a\" (it begins at byte 3, the other ends at 4)") + again},
        {with_header("{" + tensor("a", "U8", "[4]", "[0,4]") + "}", 6),
         std::string("2 bytes follow the last tensor") + again},
        {with_header("{\"__metadata__\":[]}", 0), std::string("its \"__metadata__\" is no object of texts") + again},
        {with_header("{\"__metadata__\":{\"k\":1}}", 0), std::string("its metadata entry \"k\" is no text") + again},
    };
    return cases;
}

TEST_CASE("each malformed file has its own sentence") {
    const Folder folder;
    const std::string path = folder.file("bad.safetensors");
    for (const Malformed& bad : malformed()) {
        put(path, bad.file);
        CHECK(error_of(path) == path + ": " + bad.sentence);
    }
}

TEST_CASE("what is no file at all is refused") {
    const Folder folder;
    CHECK(error_of(folder.file("none")) == folder.file("none") + ": there is no such file; check the path");
    CHECK(error_of(folder.path()) == folder.path().string() + ": this is a folder; give a .safetensors file");
    REQUIRE(::mkfifo(folder.file("pipe").c_str(), 0600) == 0);
    CHECK(error_of(folder.file("pipe")) ==
          folder.file("pipe") + ": this is no regular file; give a .safetensors file on a disk");
}

TEST_CASE("a bracket bomb is refused before it takes memory") {
    const Folder folder;
    const std::string path = folder.file("bomb");
    put(path, with_header("{\"a\":" + std::string(3'000'000, '['), 0));
    CHECK(error_of(path) == path + ": its header is not valid: its brackets are nested more than 8 deep" + again);
    std::string many = "{\"a\":[0";
    for (int i = 0; i < 4'100'000; ++i) many += ",0";
    put(path, with_header(many + "]}", 0));
    CHECK(error_of(path) == path + ": its header is not valid: it holds more than 4000000 values" + again);
}

TEST_CASE("a file that becomes shorter while it is open is an error and no crash") {
    const Folder folder;
    const std::string path = folder.file("f");
    put(path, with_header("{" + tensor("a", "U8", "[100]", "[0,100]") + "}", 100));
    const SafetensorsFile file = SafetensorsFile::open(path);
    std::filesystem::resize_file(path, 120);
    CHECK(usage_error([&] { file.read(file.tensors()[0]); }) ==
          path +
              ": the file ends at byte 120, although it was longer when it was opened; do not change it while it is "
              "read");
}

}  // namespace
}  // namespace tessera::files_test
