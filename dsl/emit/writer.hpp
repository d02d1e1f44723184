#pragma once

#include <string>

#include "dsl/base/place.hpp"

namespace tessera::emit {

/// Collects indented lines.
class Writer {
public:
    explicit Writer(bool line_directives) : line_directives_(line_directives) {}

    /// One line, broken at commas and spaces where it is longer than 120 columns, then `// note` if there is one.
    void line(const std::string& text, const std::string& note = {});
    /// Opens a scope: what follows is indented. The line gets " {".
    void open(const std::string& head);
    void close(const std::string& note = {});
    /// Starts `levels` deeper.
    void indent_by(int levels) { depth_ += levels; }
    void comment(const std::string& text);

    /// `#line` to the place, unless it is unknown or the last one.
    void at(const Place& place);

    const std::string& text() const { return out_; }

private:
    std::string out_;
    int depth_ = 0;
    bool line_directives_;
    std::string file_;
    std::uint32_t line_ = 0;
};

/// The text at an indentation of `depth` levels, broken so that no line has more than 120 columns.
std::string wrapped(const std::string& text, int depth);

/// Fit for the rest of a line after `//`: no line ends, no backslash at the end.
std::string comment_text(const std::string& text);

}  // namespace tessera::emit
