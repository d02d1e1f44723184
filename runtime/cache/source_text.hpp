#pragma once

#include <string>
#include <string_view>

namespace tessera::runtime {

/// The part of a CUDA translation unit that decides its machine code, for hashing (not for compiling): without
/// comments, #line directives, blank lines and repeated blanks. Literals, also raw ones, stay byte for byte, and no two
/// tokens are joined. With `keep_lines`, everything that moves a token to another line stays visible: #line, blank
/// lines, and the ends of lines inside comments.
std::string canonical_source(std::string_view cuda_text, bool keep_lines);

/// True if the text can see its own line numbers (__LINE__, __FILE__ and the like), so that they decide its machine
/// code.
bool mentions_lines(std::string_view cuda_text);

}  // namespace tessera::runtime
