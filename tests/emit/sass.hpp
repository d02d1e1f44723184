#pragma once

#include <catch2/catch.hpp>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <unistd.h>

#include "runtime/compiled.hpp"
#include "runtime/cubin.hpp"

namespace tessera::test {

/// The machine code as text; empty where there is no nvdisasm.
inline std::string sass_of(const Compiled& compiled) {
    const auto base = std::filesystem::temp_directory_path() / ("tessera_sass_" + std::to_string(getpid()));
    const std::string cubin = base.string() + ".cubin", text = base.string() + ".sass";
    std::ofstream(cubin, std::ios::binary)
        .write(reinterpret_cast<const char*>(compiled.cubin.data()),
               static_cast<std::streamsize>(compiled.cubin.size()));
    const bool ran = std::system(("nvdisasm -c " + cubin + " > " + text + " 2> /dev/null").c_str()) == 0;
    std::stringstream all;
    all << std::ifstream(text).rdbuf();
    std::filesystem::remove(cubin);
    std::filesystem::remove(text);
    return ran ? all.str() : "";
}

/// The same of code that keeps nothing on a stack; says so where it could not be looked at.
inline std::string sass_without_stack(const Compiled& compiled) {
    for (const runtime::CubinFacts& facts : runtime::read_cubin(compiled.cubin)) CHECK(facts.stack_bytes == 0);
    const std::string sass = sass_of(compiled);
    if (sass.empty()) WARN("there is no nvdisasm, so the instructions were not looked at");
    return sass;
}

/// How often a word stands in a text.
inline int count_of(const std::string& text, const std::string& word) {
    int n = 0;
    for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++n;
    return n;
}

}  // namespace tessera::test
