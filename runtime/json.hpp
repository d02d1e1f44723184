#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace tessera::json {

/// A parsed JSON value. Members keep the order of the text; a name that stands twice is refused by `parse`.
struct Value {
    using Array = std::vector<Value>;
    using Object = std::vector<std::pair<std::string, Value>>;
    std::variant<std::nullptr_t, bool, std::int64_t, double, std::string, Array, Object> data = nullptr;

    template <class Kind>
    const Kind* as() const {
        return std::get_if<Kind>(&data);
    }
    /// The member of that name; null if this is no object or has none.
    const Value* find(std::string_view name) const;
};

/// What a text may cost: nesting is bounded before memory is taken for it, and so is the number of values.
struct Limits {
    std::size_t depth = 8;
    std::size_t values = 4'000'000;
};

/// Parses strict JSON: no NaN, no comments, valid UTF-8, every name once in its object.
/// False: `why` says what is wrong, as the end of a sentence ("… at byte 12").
bool parse(std::string_view text, const Limits& limits, Value& out, std::string& why);

/// The text as a JSON string with its quotes; bytes that are not UTF-8 become U+FFFD.
std::string quote(std::string_view text);

/// The same for a message: at most 80 bytes of it.
std::string shown(std::string_view text);

/// "[2, 3]".
std::string list(const std::vector<std::int64_t>& numbers);

}  // namespace tessera::json
