#pragma once

namespace tessera::tool {

/// Parses the command line and runs the subcommand. Returns the exit code: 0 done, 1 refused or different, 2 wrong
/// usage. No exception leaves it: an error is one sentence on stderr.
int run_command_line(int argc, char** argv);

}  // namespace tessera::tool
