#include "runtime/cache/source_text.hpp"

#include <array>
#include <catch2/catch.hpp>
#include <random>
#include <string>

using tessera::runtime::canonical_source;
using tessera::runtime::mentions_lines;

namespace {
std::string plain(const std::string& text) { return canonical_source(text, false); }
std::string with_lines(const std::string& text) { return canonical_source(text, true); }
}  // namespace

TEST_CASE("source text: comments, #line, blank lines and repeated blanks vanish") {
    CHECK(plain("int a; // one\nint b; /* two */ int c;\n") == "int a;\nint b; int c;\n");
    CHECK(plain("/* head\n * of file */\n\n  int\ta;\r\n\n") == "int a;\n");
    CHECK(plain("#line 7 \"a.cpp\"\nint a;\n  # line 9\nint b;\n# 12 \"x.h\" 2\nint c;\n") ==
          "int a;\nint b;\nint c;\n");
    CHECK(plain("// ends in a splice \\\nstill the comment\nint a;\n") == "int a;\n");
    CHECK(plain("/\\\n/ a comment behind a splice\nint a;\n") == "int a;\n");
    CHECK(plain("#line 3 \"/*.cpp\"\nint a;\n") == "int a;\n");
    CHECK(plain("#line 3 \"a\\\"/*.cpp\"\nint a;\n") == "int a;\n");
    CHECK(plain("#line 3 /* over\ntwo lines */\nint a;\n") == "int a;\n");
}

TEST_CASE("source text: a comment never joins two tokens") {
    CHECK(plain("unsigned/**/int a;") == "unsigned int a;");
    CHECK(plain("a = b +/**/+ c;") == "a = b + + c;");
    CHECK(plain("#define F/**/(x) x\n") == "#define F (x) x\n");
    CHECK(plain("#define F(x) x\n") == "#define F(x) x\n");
    CHECK(plain("x = 1/2/*c*//3;") == "x = 1/2 /3;");
}

TEST_CASE("source text: what looks like a comment inside of a literal survives") {
    for (const std::string text :
         {R"(f("// no comment");)", R"(f("/* no */");)", R"(f("quote \" // no");)", R"(f('"', "//x");)",
          R"(f('\'', '"');)", R"raw(f(R"(" // no ) /* in */ " )");)raw", R"raw(f(R"x( )" // )x");)raw",
          R"raw(f(u8R"( // )", LR"( /* )");)raw", R"(f("a  b");)", R"(f("back\\");)", "#include <a//b>",
          R"(int n = 1'000'000; f("//");)", R"(x = 0x1'0 + y; f('"');)", R"(f(L'"', u8'/', "//");)"}) {
        CHECK(plain(text) == text);
    }
    CHECK(plain("f(R\"(a\n#line 3\n\n  b \\\nc)\");\n") == "f(R\"(a\n#line 3\n\n  b \\\nc)\");\n");
    CHECK(plain("xR\"(\" // comment\n") == "xR\"(\"\n");
}

TEST_CASE("source text: directives that only look like #line stay") {
    CHECK(plain("#define lines 3\n#pragma unroll\n") == "#define lines 3\n#pragma unroll\n");
    CHECK(plain("#define A \\\n#line 3\nint b;\n") == "#define A #line 3\nint b;\n");
    CHECK(plain("int a; #line 3\n") == "int a; #line 3\n");
    CHECK(plain("#liner 3\n") == "#liner 3\n");
}

TEST_CASE("source text: a splice does not exist, but the blanks around it do") {
    CHECK(plain("in\\\nt a;\n") == "int a;\n");
    CHECK(plain("in\\\n t a;\n") == "in t a;\n");
    CHECK(plain("\"a\\\nb\"") == "\"ab\"");
}

TEST_CASE("source text: with lines kept, whatever moves a token to another line is seen") {
    CHECK(with_lines("int a; // x\nint b;\n") == with_lines("int a;\nint b;\n"));
    CHECK(with_lines("int a;\n\nint b;\n") != with_lines("int a;\nint b;\n"));
    CHECK(with_lines("#line 3\nint b;\n") != with_lines("#line 4\nint b;\n"));
    CHECK(with_lines("/*\n*/int b;\n") != with_lines("/**/int b;\n"));
    CHECK(with_lines("int \\\nb;\n") != with_lines("int b;\n"));
    CHECK(with_lines("#define A /*\n*/ 3\n") != with_lines("#define A\n3\n"));
}

TEST_CASE("source text: texts that end in the middle of something are taken as they are") {
    for (const std::string text : {"\"open", "'", "R\"(open", "R\"", "#", "#line", "#line 3", "1'", "\\", "a/", "/*",
                                   "/* x", "//", "R\"delimiter", "\"\\", "'\\", "#line 3 \"\\", "\\\n", "\\\r\n"}) {
        INFO(text);
        CHECK(plain(text).size() <= text.size());
        CHECK(with_lines(text).size() <= text.size() + 1);
    }
    CHECK(plain("\"open\nint a; // c\n") == "\"open\nint a;\n");
}

TEST_CASE("source text: texts that see their own lines are known") {
    CHECK(mentions_lines("f(__LINE__);"));
    CHECK(mentions_lines("std::source_location::current()"));
    CHECK_FALSE(mentions_lines("#line 3\nint line;"));
}

TEST_CASE("source text: random programs, comments put anywhere between tokens") {
    const std::array<std::string, 22> tokens = {
        "int", "x",     "1'000", "0x1p-3f",    ".5e+3", "\"s // t\"", "'\\''", "R\"q(\n#line 1\n// )q\"",
        "+",   "/",     "*",     "=",          "(",     ")",          "{",     "}",
        ";",   "u8'a'", "R",     "LR\"(/*)\"", "'\"'",  "\"\\\"/*\""};
    const std::array<std::string, 8> between = {
        " ", "\t ", "/**/", "/* * // \" */", " /* \n#line 3\n' */ ", "/*/ x */", " \\\n", "//\\\n /*\n "};
    std::mt19937 random(20240611);
    for (int round = 0; round < 2000; ++round) {
        std::string expected = "#define P", text = "#define P";
        for (int i = 0; i < 12; ++i) {
            const std::string token = tokens[random() % tokens.size()];
            // The last separator contains an end of line that ends the logical line.
            const std::size_t which = random() % between.size();
            expected += (which == between.size() - 1 ? "\n" : " ") + token;
            if (text.back() == '/') text += ' ';  // else a comment would begin one character too early
            text += between[which] + token;
        }
        INFO(text);
        REQUIRE(plain(text) == expected);
        REQUIRE(plain(expected) == expected);
    }
}
