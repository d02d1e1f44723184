// Reading case files: names, options, strides.
#include <catch2/catch.hpp>

#include "tests/tool/support.hpp"
#include "tools/tessera/verdict.hpp"

namespace tessera::tool_test {
namespace {

using tool::Arguments;
using tool::Case;
using tool::CaseTensor;

StoredMetadata about(const std::string& kernel, const std::string& args, const std::string& strides) {
    return {{"kernel", kernel}, {"args", args}, {"strides", strides}};
}

const NamedBytes x{{"in.x", StoredType::I16, {2, 3}}, "AaBbCcDdEeFf"};

std::string load_error(const std::vector<NamedBytes>& tensors, const StoredMetadata& metadata) {
    const Folder folder;
    const std::string path = folder.file("case");
    write_file(path, tensors, metadata);
    std::string error = usage_error([&] { tool::load_case(path); });
    return error.rfind(path, 0) == 0 ? error.substr(path.size()) : error;
}

TEST_CASE("a case is read and its inputs are laid out at their strides") {
    const Folder folder;
    const std::string path = folder.file("case");
    write_file(path, {x, {{"out.y", StoredType::U8, {}}, "!"}}, about("k", "{\"a\": 1}", "{\"in.x\": [1, 4]}"));
    const Case read = tool::load_case(path);
    CHECK(read.kernel == "k");
    CHECK(read.args.number("a", 0) == 1);
    REQUIRE(read.input("x"));
    REQUIRE(read.output("y"));
    CHECK_FALSE(read.input("y"));
    CHECK(read.input("x")->strides == std::vector<std::int64_t>{1, 4});
    const std::vector<std::byte> memory = tool::laid_out(*read.input("x"), std::byte{'.'});
    const std::string text(reinterpret_cast<const char*>(memory.data()), memory.size());
    CHECK(text == "AaDd....BbEe....CcFf");
    CHECK(tool::gathered(memory, {2, 3}, {1, 4}, 2) == read.input("x")->values);
}

TEST_CASE("files that are no case are refused") {
    CHECK(load_error({x}, {}) ==
          ": this is no case of a kernel: its metadata has no \"kernel\"; give a case file such as those of "
          "tests/golden");
    CHECK(load_error({x}, about("k", "{", "{}")) ==
          ": the args of the case are no JSON: the text ends too early; correct the file");
    CHECK(load_error({x}, about("k", "[]", "{}")) == ": the args of the case are no JSON object; correct the file");
    CHECK(load_error({x}, about("k", "{\"a\":1,\"a\":2}", "{}")) ==
          ": the args of the case are no JSON: the name \"a\" stands twice; correct the file");
    CHECK(load_error({x}, about("k", "{}", "{\"in.z\":[1]}")) ==
          ": there are strides for in.z, but no such tensor; correct the case");
    CHECK(load_error({x}, about("k", "{}", "{\"in.x\":[1]}")) ==
          ": the tensor in.x has 2 extents but 1 strides; correct its strides");
    CHECK(load_error({x}, about("k", "{}", "{\"in.x\":[-3,1]}")) ==
          ": the tensor in.x has the negative stride -3; give strides of 0 or more");
    CHECK(
        load_error({x}, about("k", "{}", "{\"in.x\":[9223372036854775807,1]}")) ==
        ": the tensor in.x with the extents [2, 3] and strides [9223372036854775807, 1] reaches too far; give smaller "
        "strides");
    CHECK(load_error({x}, about("k", "{}", "{\"in.x\":\"no\"}")) ==
          ": the option in.x is not a list of whole numbers; correct its value");
    CHECK(load_error({{{"x", StoredType::U8, {}}, "!"}}, about("k", "{}", "{}")) ==
          ": the tensor x is neither an input (in.…) nor an output (out.…); rename it");
    CHECK(load_error({{{"in.x", StoredType::F4, {2}}, "!"}}, about("k", "{}", "{}")) ==
          ": the tensor in.x has the type F4; store such values packed, as U8 or I8");
}

TEST_CASE("options are typed words") {
    const Arguments args =
        Arguments::from_words({"sf=packed", "n=128", "block=32x128", "list=[1, 2]", "round=true", "t=1x"});
    CHECK(args.text("sf", "") == "packed");
    CHECK(args.number("n", 0) == 128);
    CHECK(args.numbers("n", {}) == std::vector<std::int64_t>{128});
    CHECK(args.numbers("block", {}) == std::vector<std::int64_t>{32, 128});
    CHECK(args.numbers("list", {}) == std::vector<std::int64_t>{1, 2});
    CHECK(args.flag("round", false));
    CHECK(args.text("t", "") == "1x");
    CHECK(args.number("absent", 7) == 7);
    CHECK(args.keys() == std::vector<std::string>{"sf", "n", "block", "list", "round", "t"});
    CHECK(usage_error([&] { args.number("sf", 0); }) ==
          "the command line: the option sf is not a whole number; correct its value");
    CHECK(usage_error([&] { args.flag("n", false); }) ==
          "the command line: the option n is not true or false; correct its value");
    CHECK(usage_error([] { Arguments::from_words({"x"}); }) ==
          "\"x\" is no option of a kernel; write key=value, such as sf=packed");
    CHECK(usage_error([] { Arguments::from_words({"a=1", "a=2"}); }) == "the option a is given twice; give it once");
}

Case named_case(const std::string& kernel, const std::string& args, const std::vector<std::string>& inputs,
                const std::vector<std::string>& outputs) {
    Case made{"f", kernel, Arguments::from_json(args, "f"), {}, {}};
    for (const std::string& name : inputs) made.inputs.push_back({name, StoredType::BF16, {0, 8}, {8, 1}, {}});
    for (const std::string& name : outputs) made.outputs.push_back({name, StoredType::F8_E4M3, {0, 8}, {8, 1}, {}});
    return made;
}

TEST_CASE("unknown names are errors and what is not written yet is told apart") {
    std::string why;
    CHECK(tool::kernel_for(named_case("per_token_cast", "{\"note\": \"n\", \"tolerance\": 0}", {"x"}, {"out", "sf"}),
                           why));
    CHECK_FALSE(tool::kernel_for(named_case("per_acorn_cast", "{}", {"x"}, {}), why));
    CHECK(why == "the kernel per_acorn_cast is not written yet");
    CHECK(tool::kernel_for(named_case("per_token_cast", "{\"in_fmt\": \"e4m3\"}", {"x", "x_sf"}, {}), why));
    tool::KernelEntry partial = *tool::find_kernel("per_token_cast");
    partial.later_keys = {"use_e4m3_sf"};
    CHECK(tool::check_options(partial, Arguments::from_json("{\"use_e4m3_sf\": true}", "f"), {}) ==
          "the option use_e4m3_sf of per_token_cast is not written yet");

    const auto error = [](const std::string& args, const std::vector<std::string>& inputs,
                          const std::vector<std::string>& outputs) {
        return usage_error([&] {
            std::string unused;
            tool::kernel_for(named_case("per_block_cast", args, inputs, outputs), unused);
        });
    };
    CHECK(error("{\"roundsf\": true}", {"x"}, {}) ==
          "f: per_block_cast has no option \"roundsf\"; it takes fmt, block_size, sf, round_sf, hidden");
    CHECK(error("{}", {"y"}, {}) == "f: per_block_cast has no input \"y\"; it takes x");
    CHECK(error("{}", {}, {}) == "f: the input x of per_block_cast is missing; add it");
    CHECK(error("{}", {"x"}, {"z"}) == "f: per_block_cast has no output \"z\"; it gives out, sf");
}

}  // namespace
}  // namespace tessera::tool_test
