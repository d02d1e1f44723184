#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace tessera::tool {

/// How `--help` looks: what an option takes is a word for its meaning (FILE, SIZE), whether it may be left out and what
/// then holds stands in words, and no line is longer than a terminal's usual 100 columns.
class HelpFormat : public CLI::Formatter {
public:
    std::string make_description(const CLI::App* app) const override;
    std::string make_help(const CLI::App* app, std::string name, CLI::AppFormatMode mode) const override;
    std::string make_subcommand(const CLI::App* app) const override;
    std::string make_option_opts(const CLI::Option* option) const override;
    std::string make_option_desc(const CLI::Option* option) const override;
};

/// The text with a line break instead of the space before each word that would go past `width` characters.
std::string wrapped(const std::string& text, std::size_t width);

}  // namespace tessera::tool
