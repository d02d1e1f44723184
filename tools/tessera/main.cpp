#include "tools/tessera/command_line.hpp"

int main(int argc, char** argv) { return tessera::tool::run_command_line(argc, argv); }
