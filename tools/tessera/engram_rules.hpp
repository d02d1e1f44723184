#pragma once

#include "tools/tessera/compare.hpp"

namespace tessera::tool {

// How outputs of the Engram gate are compared with a file: by twice the limit that an evaluation in double precision
// gives for each element.

Rule engram_forward_rule(const Case& the_case, const std::string& output);
Rule engram_backward_rule(const Case& the_case, const std::string& output);
Rule engram_reduce_rule(const Case& the_case, const std::string& output);

/// The options of a case.
float engram_eps(const Arguments& args);
float engram_clamp(const Arguments& args);

}  // namespace tessera::tool
