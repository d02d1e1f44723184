#include <catch2/catch.hpp>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "runtime/cache/cache_key.hpp"
#include "runtime/cache/log_line.hpp"
#include "tests/cache/support.hpp"

using namespace tessera::runtime;
using tessera::test::Child;

namespace {

const std::string text = "extern \"C\" __global__ void k(float* x) {\n    x[0] = 1.5f;\n}\n";

struct Inputs {
    std::string cuda = text;
    std::string target = "sm_90a";
    std::string compiler = "build-id:00ff";
    std::vector<std::string> options = {"--gpu-architecture=sm_90a", "--fmad=false"};
    std::string key() const { return make_key(cuda, target, compiler, options).hex(); }
};

std::string with_options(std::vector<std::string> options) {
    Inputs inputs;
    inputs.options = std::move(options);
    return inputs.key();
}

// "two options" of data/golden_keys.json, which another implementation wrote.
const std::string expected_key = "906173a23ab9f434e486886455709dbd";

}  // namespace

TEST_CASE("digest: known answers of XXH3-128") {
    CHECK(hex(xxh3_128({})) == "99aa06d3014798d86001c324468d497f");
    const std::string abc = "abc";
    CHECK(hex(xxh3_128(std::as_bytes(std::span(abc)))) == "06b05ab6733a618578af5f94892f3950");
    Hasher pieces;
    pieces.add(std::as_bytes(std::span(abc).first(1)));
    pieces.add(std::as_bytes(std::span(abc).last(2)));
    CHECK(pieces.finish() == xxh3_128(std::as_bytes(std::span(abc))));
}

TEST_CASE("key: a known answer") { CHECK(Inputs{}.key() == expected_key); }

TEST_CASE("child: key", "[.child]") {
    tessera::test::become_ordinary_user();
    for (int i = 0; i < std::stoi(tessera::test::passed("TEST_BEFORE")); ++i) {
        Inputs other;
        other.cuda = "extern \"C\" __global__ void k(int* x) { x[0] = " + std::to_string(i) + "; }\n";
        REQUIRE(other.key() != expected_key);
    }
    CHECK(Inputs{}.key() == expected_key);
}

TEST_CASE("key: the same in another process, as another user, elsewhere, after other kernels of the same name (C32)") {
    for (const char* before : {"0", "50"}) {
        Child child("child: key",
                    {{"TEST_BEFORE", before}, {"HOME", "/nowhere"}, {"PATH", "/bin"}, {"TZ", "Asia/Tokyo"}});
        const auto result = child.wait();
        INFO(result.output);
        CHECK(result.exit_code == 0);
    }
}

TEST_CASE("key: each input that decides the machine code changes it (C33)") {
    std::set<std::string> keys = {Inputs{}.key()};
    int count = 1;
    const auto another = [&](const std::function<void(Inputs&)>& change) {
        Inputs inputs;
        change(inputs);
        keys.insert(inputs.key());
        ++count;
        CHECK(static_cast<int>(keys.size()) == count);
    };
    another([](Inputs& in) { in.target = "sm_90"; });
    another([](Inputs& in) { in.target = "sm_100a"; });
    another([](Inputs& in) { in.compiler = "build-id:00fe"; });
    another([](Inputs& in) { in.cuda = "__device__ float helper() { return 1.0f; }\n" + in.cuda; });
    another([](Inputs& in) { in.cuda = "__device__ float helper() { return 2.0f; }\n" + in.cuda; });
    another([](Inputs& in) { in.cuda.replace(in.cuda.find("1.5f"), 4, "1.6f"); });  // a captured constant
    another([](Inputs& in) { in.options.push_back("--maxrregcount=64"); });
    another([](Inputs& in) { in.options.push_back("--maxrregcount=32"); });
    another([](Inputs& in) { in.options.push_back("-lineinfo"); });
    another([](Inputs& in) { in.options.push_back("-G"); });
    another([](Inputs& in) { in.options = {"--gpu-architecture=sm_90a"}; });
    another([](Inputs& in) { in.options = {}; });
}

TEST_CASE("key: nothing can be moved between neighbouring fields") {
    CHECK(make_key("c", "ab", "", {}).hex() != make_key("c", "a", "b", {}).hex());
    CHECK(make_key("c", "a", "b", {}).hex() != make_key("bc", "a", "", {}).hex());
    const std::vector<std::string> one = {"--a--b"}, two = {"--a", "--b"}, three = {"--a", "--b", "--c"};
    CHECK(make_key("t", "a", "b", one).hex() != make_key("t", "a", "b", two).hex());
    CHECK(make_key("--c", "a", "b", two).hex() != make_key("", "a", "b", three).hex());
    CHECK(make_key("t", "a\nb", "", {}).hex() != make_key("t", "a", "\nb", {}).hex());
}

TEST_CASE("key: an option at its default is as good as unset; order, blanks and spelling do not matter") {
    const std::string bare = with_options({});
    CHECK(with_options({"--fmad=true", "--ftz=false", "--prec-div=true", "--prec-sqrt=true"}) == bare);
    CHECK(with_options({"-fmad=true", " ", ""}) == bare);
    CHECK(with_options({"--fmad=false"}) != bare);
    CHECK(with_options({"--ftz=true"}) != bare);
    CHECK(with_options({"-x", "--y=1"}) == with_options({" --y=1", "--x", "--y=1 "}));
    CHECK(with_options({"-lineinfo"}) == with_options({"--generate-line-info"}));
    CHECK(with_options({"-arch=sm_90a"}) == with_options({"--gpu-architecture=sm_90a"}));
}

TEST_CASE("key: options that contradict each other keep their order") {
    CHECK(with_options({"-DN=1", "-DN=2"}) == with_options({"-DN=1", "-DN=2"}));
    CHECK(with_options({"--maxrregcount=1", "--maxrregcount=2"}) !=
          with_options({"--maxrregcount=2", "--maxrregcount=1"}));
    CHECK(with_options({"--fmad=false", "--fmad=true"}) != with_options({"--fmad=false"}));
    CHECK(with_options({"--use_fast_math", "--prec-div=true"}) != with_options({"--use_fast_math"}));
}

TEST_CASE("key: comments and #line count only when line information is compiled in") {
    Inputs moved;
    moved.cuda = "// a comment\n#line 12 \"user.cpp\"\n" + text;
    CHECK(moved.key() == Inputs{}.key());
    for (const char* option : {"-lineinfo", "--generate-line-info", "--device-debug"}) {
        Inputs here, there, commented;
        here.options = there.options = commented.options = {option};
        here.cuda = "#line 12 \"user.cpp\"\n" + text;
        there.cuda = "#line 13 \"user.cpp\"\n" + text;
        commented.cuda = "#line 12 \"user.cpp\" // here\n" + text;
        CHECK(here.key() != there.key());
        CHECK(here.key() == commented.key());
    }
    Inputs sees, sees_more;
    sees.cuda = "int line = __LINE__;\n";
    sees_more.cuda = "#line 5\nint line = __LINE__;\n";
    CHECK(sees.key() != sees_more.key());
}

TEST_CASE("key: its text says what it was made of, the log line names kernel, key and outcome") {
    const CacheKey key = make_key(text, "sm_90a", "build-id:00ff", Inputs{}.options);
    CHECK(key.text ==
          "format 2\ntarget sm_90a\ncompiler build-id:00ff\noption --fmad=false\noption --gpu-architecture=sm_90a\n"
          "source 7ff22d0bc071b3b49df5cad90a4a137d");
    CHECK(lookup_line("per_token_cast", "sm_90a", key.hex(), "compiled", 84.26) ==
          "tessera: per_token_cast sm_90a 906173a23ab9 compiled 84.3 ms");
}
