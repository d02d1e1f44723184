#include <catch2/catch.hpp>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

#include "dsl/emit/cuda.hpp"
#include "dsl/ir/verify.hpp"
#include "tests/emit/samples.hpp"

using namespace tessera;

namespace {

std::string read(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    std::ostringstream text;
    text << file.rdbuf();
    return text.str();
}

bool accepting() {
    const char* value = std::getenv("TESSERA_ACCEPT");
    return value != nullptr && std::string(value) == "1";
}

/// Compares with golden/<name>.cu, or rewrites it.
void expect_golden(const std::string& name, const std::string& text) {
    const std::string path = std::string(TESSERA_EMIT_GOLDEN) + "/" + name + ".cu";
    if (accepting()) {
        std::ofstream(path, std::ios::binary) << text;
        WARN("accepted " + path);
        return;
    }
    INFO("If the new text is right, run this test with TESSERA_ACCEPT=1 in the environment, which rewrites " + path +
         ", and commit the difference.");
    CHECK(text == read(path));
}

}  // namespace

TEST_CASE("emitted text: golden files") {
    expect_golden("cast", emit::cuda_text(test::cast_sample(), Target::h200()));
    expect_golden("transpose", emit::cuda_text(test::transpose_sample(), Target::h200()));
    expect_golden("normalize", emit::cuda_text(test::normalize_sample(), Target::h200()));
    expect_golden("packed", emit::cuda_text(test::packed_sample(), Target::h200()));
    expect_golden("packed_sm100", emit::cuda_text(test::packed_sample(), Target::b200()));
    expect_golden("spelling", emit::cuda_text(test::spelling_sample(), Target::b200()));
}

TEST_CASE("emitted text: the packed sample is a program that the verifier lets pass") {
    CHECK_NOTHROW(ir::verify(test::packed_sample()));
    ir::Program broken = test::packed_sample();
    for (ir::Statement& statement : broken.body)
        if (auto* load = statement.as<ir::LoadVector>(); load != nullptr && load->access.lanes == 16)
            load->access.lanes = 4;
    CHECK_THROWS_WITH(ir::verify(broken), Catch::Contains("whole groups of the elements that share bytes"));
}

TEST_CASE("emitted text: the same program gives the same bytes") {
    CHECK(emit::cuda_text(test::cast_sample(), Target::h200()) == emit::cuda_text(test::cast_sample(), Target::h200()));
}

TEST_CASE("emitted text: #line can be left out, and is all that the option leaves out") {
    const std::string with = emit::cuda_text(test::cast_sample(), Target::h200());
    const std::string without = emit::cuda_text(test::cast_sample(), Target::h200(), {.line_directives = false});
    std::istringstream lines(with);
    std::string rest;
    int directives = 0;
    for (std::string line; std::getline(lines, line);) {
        if (line.rfind("#line ", 0) == 0)
            ++directives;
        else
            rest += line + "\n";
    }
    CHECK(directives == 4);  // cast_sample has four places
    CHECK(rest == without);
}
