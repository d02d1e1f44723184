#pragma once

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <unistd.h>

#include "runtime/compiled.hpp"

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

/// How often a word stands in a text.
inline int count_of(const std::string& text, const std::string& word) {
    int n = 0;
    for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++n;
    return n;
}

}  // namespace tessera::test
