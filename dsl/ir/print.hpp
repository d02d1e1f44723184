#pragma once

#include <string>

#include "dsl/ir/program.hpp"

namespace tessera::ir {

/// Readable text of a program of either stage: its tables, then one statement a line. A bound tile is named after what
/// it holds (%x, %x.2, %max); element type, extents and the writer's file and line stand after "//". The same program
/// always gives the same text, and programs that differ only in node ids do too. Prints broken programs as well.
std::string print(const Program& program);

/// Text of one expression: infix with the parentheses of C++ and no others. Without a program tables show as indices
/// (tensor0, loop1). Longer than `limit` characters it is cut, with "…" at the end.
std::string print(Ref expression, std::size_t limit = 2000);

/// The same with the names of `program`; a bound tile shows what it computes.
std::string print(const Program& program, Ref expression, std::size_t limit = 2000);

/// Text of one statement of `program`, without its body, its notes and its line end.
std::string print_line(const Program& program, const Statement& statement, std::size_t limit = 2000);

/// "bf16", "bf16 [4, 1024]": element type and extents.
std::string print_type(Element type, const Shape& shape);

/// "rms_norm.cpp:17"; empty for a node that nobody wrote.
std::string print_place(const Place& place);

}  // namespace tessera::ir
