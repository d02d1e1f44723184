#include "tools/tessera/help_format.hpp"

#include <algorithm>
#include <sstream>

namespace tessera::tool {

namespace {

constexpr std::size_t line_width = 98;  // --help-all indents by 2

/// Characters of a UTF-8 text.
std::size_t characters(const std::string& text) {
    return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

}  // namespace

std::string wrapped(const std::string& text, std::size_t width) {
    std::string result;
    std::size_t column = 0;
    for (std::size_t at = 0; at <= text.size();) {
        const std::size_t end = std::min(text.find(' ', at), text.size());
        const std::string word = text.substr(at, end - at);
        const std::size_t length = characters(word);
        const bool first = at == 0, breaks = !first && column + 1 + length > width;
        if (!first) result += breaks ? '\n' : ' ';
        result += word;
        column = breaks || first ? length : column + 1 + length;
        at = end + 1;
    }
    return result;
}

std::string HelpFormat::make_description(const CLI::App* app) const {
    return wrapped(CLI::Formatter::make_description(app), line_width);
}

std::string HelpFormat::make_help(const CLI::App* app, std::string name, CLI::AppFormatMode mode) const {
    // A group of hidden options leaves an empty line.
    return CLI::detail::find_and_replace(CLI::Formatter::make_help(app, std::move(name), mode), "\n\n\n", "\n\n");
}

std::string HelpFormat::make_subcommand(const CLI::App* app) const {
    std::stringstream out;
    CLI::detail::format_help(out, app->get_display_name(true),
                             wrapped(app->get_description(), line_width - get_column_width()), get_column_width());
    return out.str();
}

std::string HelpFormat::make_option_opts(const CLI::Option* option) const {
    // A positional's name says what it is, and the usage line whether it may be left out or repeated.
    if (option->get_positional() || option->get_type_size() == 0) return "";
    return " " + option->get_type_name();
}

std::string HelpFormat::make_option_desc(const CLI::Option* option) const {
    std::string text = option->get_description();
    const std::string standard = option->get_default_str();
    if (!standard.empty()) text += " (default: " + standard + ")";
    if (option->get_required() && !option->get_positional()) text += " (must be given)";
    return wrapped(text, line_width - get_column_width());
}

}  // namespace tessera::tool
