// The key of a recorded kernel hangs on what it computes and for whom, not on who built it, where and after what.
#include <catch2/catch.hpp>

#include "dsl/emit/cuda.hpp"
#include "dsl/lower/lower.hpp"
#include "runtime/cache/cache_key.hpp"
#include "runtime/compiler.hpp"
#include "tessera/dsl.hpp"
#include "tests/cache/support.hpp"

using namespace tessera;
using namespace tessera::runtime;

namespace tessera::test {
Program kernel_x_of_first_user(float factor);
Program kernel_x_of_second_user(float factor);
}  // namespace tessera::test

namespace {

std::string text_of(const Program& program, const Target& target = Target::h200()) {
    return emit::cuda_text(lower::lower(program.ir(), target), target);
}

std::string key_of(const Program& program, const Target& target = Target::h200()) {
    return make_key(text_of(program, target), target.arch(), "build-id:1", Compiler::options_for(target)).hex();
}

}  // namespace

TEST_CASE("key: one kernel, built in two folders (C32)") {
    const Program first = test::kernel_x_of_first_user(3), second = test::kernel_x_of_second_user(3);
    CHECK(text_of(first).find("first/kernel_x.cpp\"") != std::string::npos);
    CHECK(text_of(first) != text_of(second));  // the paths of #line
    CHECK(key_of(first) == key_of(second));
    test::ScopedEnvironment lines{{"TESSERA_LINEINFO", "on"}};
    CHECK(key_of(first) != key_of(second));
}

TEST_CASE("child: key of a recorded kernel", "[.child]") {
    test::become_ordinary_user();
    for (int i = 0; i < std::stoi(test::passed("TEST_BEFORE")); ++i)
        CHECK(key_of(test::kernel_x_of_second_user(static_cast<float>(100 + i))) != test::passed("TEST_EXPECTED"));
    CHECK(key_of(test::kernel_x_of_first_user(3)) == test::passed("TEST_EXPECTED"));
}

TEST_CASE("key: one kernel, recorded first and after 50 of its name, as two users (C32)") {
    const std::string mine = key_of(test::kernel_x_of_first_user(3));
    for (const char* before : {"0", "50"}) {
        test::Child child("child: key of a recorded kernel", {{"TEST_BEFORE", before},
                                                              {"TEST_EXPECTED", mine},
                                                              {"HOME", "/nowhere"},
                                                              {"USER", "somebody"},
                                                              {"TZ", "Asia/Tokyo"},
                                                              {"LC_ALL", "C"}});
        const auto result = child.wait();
        INFO(result.output);
        CHECK(result.exit_code == 0);
    }
}

TEST_CASE("key: a captured constant and the target count (C33)") {
    const std::string key = key_of(test::kernel_x_of_first_user(3));
    CHECK(key_of(test::kernel_x_of_first_user(3)) == key);
    CHECK(key_of(test::kernel_x_of_first_user(3.0000002f)) != key);
    CHECK(key_of(test::kernel_x_of_first_user(3), Target::b200()) != key);
}
