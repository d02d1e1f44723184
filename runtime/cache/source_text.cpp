#include "runtime/cache/source_text.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace tessera::runtime {

namespace {

constexpr char end = '\0';  // past the last byte; a NUL inside of the text is kept like any other character
constexpr char hidden_newline = '\x01';  // the end of a line that does not end the logical line

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\v' || c == '\f'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_word(char c) {
    return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '$' ||
           static_cast<unsigned char>(c) >= 0x80;
}

/// Walks through the text as the compiler's second phase of translation presents it: a backslash at the end of a line
/// and that end do not exist (they do in raw literals).
class Reader {
public:
    explicit Reader(std::string_view text) : text_(text) { skip_splices(); }

    bool done() const { return at_ >= text_.size(); }
    char peek() const { return done() ? end : text_[at_]; }
    char peek_second() const {
        Reader next = *this;
        if (!next.done()) next.take();
        return next.peek();
    }
    char take() {
        const char c = text_[at_++];
        skip_splices();
        return c;
    }
    /// From the quote of a raw literal to its end, untouched; to the end of the text if it never ends.
    std::string_view take_raw_literal() {
        const std::string_view rest = text_.substr(at_);
        const std::size_t open = rest.find('(');
        std::size_t length = rest.size();
        if (open != std::string_view::npos) {
            const std::string close = ")" + std::string(rest.substr(1, open - 1)) + "\"";
            const std::size_t found = rest.find(close, open);
            if (found != std::string_view::npos) length = found + close.size();
        }
        at_ += length;
        skip_splices();
        return rest.substr(0, length);
    }
    /// Line ends that splices swallowed since the last call.
    int take_splices() { return std::exchange(splices_, 0); }

private:
    void skip_splices() {
        while (at_ < text_.size() && text_[at_] == '\\') {
            std::size_t next = at_ + 1;
            if (next < text_.size() && text_[next] == '\r') ++next;
            if (next >= text_.size() || text_[next] != '\n') return;
            at_ = next + 1;
            ++splices_;
        }
    }

    std::string_view text_;
    std::size_t at_ = 0;
    int splices_ = 0;
};

class Canonical {
public:
    Canonical(std::string_view text, bool keep_lines) : reader_(text), keep_lines_(keep_lines) {
        out_.reserve(text.size());
    }

    std::string run() && {
        while (!reader_.done()) step();
        return std::move(out_);
    }

private:
    void step() {
        const char c = reader_.peek();
        if (c == '\n') {
            end_line();
        } else if (is_blank(c)) {
            reader_.take();
            blank_ = true;
        } else if (c == '/' && (reader_.peek_second() == '/' || reader_.peek_second() == '*')) {
            skip_comment();
        } else if (c == '#' && line_is_empty_) {
            directive();
        } else if (in_include_ && c == '<') {
            literal('>');
        } else if (c == '"' || c == '\'') {
            literal(c);
        } else if (is_digit(c) || (c == '.' && is_digit(reader_.peek_second()))) {
            number();
        } else if (is_word(c)) {
            word();
        } else {
            put(reader_.take());
        }
    }

    /// One character of a token; blanks before it become one.
    void put(char c) {
        note_hidden_lines(reader_.take_splices());
        if (blank_ && !line_is_empty_) out_ += ' ';
        blank_ = false;
        line_is_empty_ = false;
        out_ += c;
    }

    void note_hidden_lines(int count) {
        if (keep_lines_) out_.append(static_cast<std::size_t>(count), hidden_newline);
    }

    void end_line() {
        reader_.take();
        note_hidden_lines(reader_.take_splices());
        if (!line_is_empty_ || keep_lines_) out_ += '\n';
        line_is_empty_ = true;
        blank_ = false;
        in_include_ = false;
    }

    void skip_comment() {
        reader_.take();
        if (reader_.take() == '/') {
            while (!reader_.done() && reader_.peek() != '\n') reader_.take();
        } else {
            for (char last = end; !reader_.done();) {
                const char c = reader_.take();
                if (c == '\n') note_hidden_lines(1);
                if (last == '*' && c == '/') break;
                last = c;
            }
        }
        blank_ = true;
    }

    /// #line and the short form `# 12 "file"` vanish; of every other directive only the name is taken here.
    void directive() {
        Reader ahead = reader_;
        ahead.take();
        while (!ahead.done() && is_blank(ahead.peek())) ahead.take();
        std::string name;
        while (!ahead.done() && is_word(ahead.peek())) name += ahead.take();
        if (!keep_lines_ && (name == "line" || (!name.empty() && is_digit(name[0])))) {
            skip_directive();
            return;
        }
        in_include_ = name == "include";
        put(reader_.take());
    }

    /// To the end of the line, which a comment may carry further; a file name may look like the start of a comment.
    void skip_directive() {
        bool quoted = false;
        while (!reader_.done() && reader_.peek() != '\n') {
            const char c = reader_.peek();
            if (!quoted && c == '/' && (reader_.peek_second() == '/' || reader_.peek_second() == '*')) {
                skip_comment();
                continue;
            }
            if (quoted && c == '\\') reader_.take();
            if (c == '"') quoted = !quoted;
            if (!reader_.done()) reader_.take();
        }
    }

    void literal(char quote) {
        put(reader_.take());
        while (!reader_.done() && reader_.peek() != '\n') {
            const char c = reader_.take();
            put(c);
            if (c == quote) return;
            if (c == '\\' && !reader_.done() && reader_.peek() != '\n') put(reader_.take());
        }
    }

    /// A number swallows the ' between its digits, which would else look like the start of a literal.
    void number() {
        char last = end;
        while (!reader_.done()) {
            const char c = reader_.peek();
            const bool sign = (c == '+' || c == '-') && (last == 'e' || last == 'E' || last == 'p' || last == 'P');
            const bool separator = c == '\'' && is_word(reader_.peek_second());
            if (!is_word(c) && c != '.' && !sign && !separator) return;
            last = reader_.take();
            put(last);
        }
    }

    void word() {
        static constexpr std::array<std::string_view, 5> raw_prefixes = {"R", "LR", "uR", "UR", "u8R"};
        std::string text;
        while (!reader_.done() && is_word(reader_.peek())) {
            text += reader_.take();
            put(text.back());
        }
        const bool raw = std::find(raw_prefixes.begin(), raw_prefixes.end(), text) != raw_prefixes.end();
        if (raw && reader_.peek() == '"') out_ += reader_.take_raw_literal();
    }

    Reader reader_;
    std::string out_;
    bool keep_lines_;
    bool line_is_empty_ = true;
    bool blank_ = false;
    bool in_include_ = false;
};

}  // namespace

std::string canonical_source(std::string_view cuda_text, bool keep_lines) {
    return Canonical(cuda_text, keep_lines).run();
}

bool mentions_lines(std::string_view cuda_text) {
    static constexpr std::array<std::string_view, 5> names = {"__LINE__", "__FILE__", "__builtin_LINE",
                                                              "__builtin_FILE", "source_location"};
    return std::any_of(names.begin(), names.end(),
                       [&](std::string_view name) { return cuda_text.find(name) != std::string_view::npos; });
}

}  // namespace tessera::runtime
