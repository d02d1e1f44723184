// public_calls() is what "every public function" means in the tests here and on a GPU: it must hold them all.
#include "tests/support/kernels/public_calls.hpp"

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>

using namespace tessera;

namespace {

std::string text_of_file(const std::filesystem::path& path) {
    std::ostringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
}

/// "quant::cast_back": what the headers of the kernels declare with a stream as its first parameter.
std::set<std::string> declared_functions() {
    static const std::regex space("namespace tessera::(\\w+) \\{"),
        function("\\n[\\w:<>]+ (\\w+)\\(const Stream& stream");
    std::set<std::string> names;
    for (const auto& file : std::filesystem::directory_iterator(KERNEL_HEADERS)) {
        if (file.path().extension() != ".hpp") continue;
        const std::string text = text_of_file(file.path());
        std::smatch found;
        if (!std::regex_search(text, found, space)) continue;
        const std::string prefix = found[1].str() + "::";
        for (std::sregex_iterator at(text.begin(), text.end(), function), end; at != end; ++at)
            names.insert(prefix + (*at)[1].str());
    }
    return names;
}

bool names_function(const std::string& text, const std::string& function) {
    return std::regex_search(text, std::regex("(^|\\W)" + function + "($|\\W)"));
}

}  // namespace

TEST_CASE("every function that the headers of the kernels declare has a row of public calls") {
    const std::set<std::string> functions = declared_functions();
    CHECK(functions.size() >= 42);
    CHECK(functions.contains("quant::per_token_cast"));
    for (const std::string& function : functions) {
        bool called = false;
        for (const test::PublicCall& call : test::public_calls())
            called = called || names_function(call.name, function);
        INFO("give " << function << " a row in tests/support/kernels/public_calls_*.cpp");
        CHECK(called);
    }
}
