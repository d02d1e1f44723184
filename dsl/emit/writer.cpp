#include "dsl/emit/writer.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <sstream>

namespace tessera::emit {

namespace {

constexpr std::size_t columns = 120;

/// Where to break `text` so that at most `room` characters stand before it: outside of as many brackets as possible,
/// there after a comma rather than at another space, and as far right as possible.
std::size_t break_at(const std::string& text, std::size_t room) {
    if (text.size() <= room) return text.size();
    std::size_t best = std::string::npos, at = 0;
    int depth = 0, best_rank = 0;
    for (; at < text.size() && (at <= room || best == std::string::npos); ++at) {
        const char c = text[at];
        if (c == '(' || c == '[') ++depth;
        if (c == ')' || c == ']') --depth;
        if (c != ' ' || at < room / 3) continue;
        const int rank = 2 * depth + (text[at - 1] == ',' ? 0 : 1);
        if (best == std::string::npos || rank <= best_rank) best = at, best_rank = rank;
    }
    return best == std::string::npos ? text.size() : best;
}

/// How many brackets are open before position `end`.
int open_brackets(const std::string& text, std::size_t end) {
    int depth = 0;
    for (std::size_t i = 0; i < end; ++i)
        depth += text[i] == '(' || text[i] == '[' ? 1 : text[i] == ')' || text[i] == ']' ? -1 : 0;
    return depth;
}

}  // namespace

std::string comment_text(const std::string& text) {
    std::string out = text;
    for (char& c : out)
        if (c == '\n' || c == '\r') c = ' ';
    if (!out.empty() && out.back() == '\\') out += '.';
    return out;
}

std::string wrapped(const std::string& text, int depth) {
    const auto spaces = [](int levels) { return std::string(static_cast<std::size_t>(4 * levels), ' '); };
    const auto room = [](int levels) { return columns - static_cast<std::size_t>(4 * levels); };
    std::size_t end = break_at(text, room(depth));
    std::string out = spaces(depth) + text.substr(0, end);
    while (end < text.size()) {
        const int levels = depth + 1 + std::clamp(open_brackets(text, end), 1, 4);
        const std::string rest = text.substr(end + 1);
        const std::size_t length = break_at(rest, room(levels));
        out += '\n' + spaces(levels) + rest.substr(0, length);
        end += 1 + length;
    }
    return out;
}

void Writer::line(const std::string& text, const std::string& note) {
    out_ += wrapped(text, depth_);
    if (!note.empty()) out_ += "  // " + comment_text(note);
    out_ += '\n';
}

void Writer::open(const std::string& head) {
    line(head.empty() ? "{" : head + " {");
    ++depth_;
}

void Writer::close(const std::string& note) {
    --depth_;
    line("}", note);
}

void Writer::comment(const std::string& text) {
    std::istringstream lines(text);
    for (std::string one; std::getline(lines, one);) {
        out_ += std::string(static_cast<std::size_t>(4 * depth_), ' ') + "// " + comment_text(one) + '\n';
    }
}

void Writer::at(const Place& place) {
    if (!line_directives_ || place.line == 0 || (place.line == line_ && place.file == file_)) return;
    line_ = place.line;
    file_ = place.file;
    std::string quoted;
    for (const char c : file_) {
        if (c == '\\' || c == '"') quoted += '\\';
        quoted += c;
    }
    out_ += fmt::format("#line {} \"{}\"\n", line_, quoted);
}

}  // namespace tessera::emit
