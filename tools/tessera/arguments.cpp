#include "tools/tessera/arguments.hpp"

#include <charconv>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "dsl/base/error.hpp"

namespace tessera::tool {

namespace {

std::optional<std::int64_t> whole_number(std::string_view text) {
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
    return value;
}

/// "128x128" and "[128, 128]" mean the same; anything that is no JSON value is a text.
json::Value value_of_word(const std::string& word) {
    json::Value value;
    std::string why;
    if (json::parse(word, {}, value, why)) return value;
    auto& numbers = value.data.emplace<json::Value::Array>();
    for (std::size_t at = 0; at <= word.size();) {
        const std::size_t end = std::min(word.find('x', at), word.size());
        const auto number = whole_number(std::string_view(word).substr(at, end - at));
        if (!number) {
            value.data.emplace<std::string>(word);
            return value;
        }
        numbers.emplace_back().data.emplace<std::int64_t>(*number);
        at = end + 1;
    }
    return value;
}

}  // namespace

Arguments Arguments::from_json(const std::string& text, const std::string& where) {
    Arguments result;
    result.where_ = where;
    std::string why;
    if (!json::parse(text, {}, result.members_, why)) {
        throw UsageError(fmt::format("{}: the args of the case are no JSON: {}; correct the file", where, why));
    }
    if (!result.members_.as<json::Value::Object>()) {
        throw UsageError(fmt::format("{}: the args of the case are no JSON object; correct the file", where));
    }
    return result;
}

Arguments Arguments::from_words(const std::vector<std::string>& words, const std::string& where) {
    Arguments result;
    result.where_ = where;
    auto& members = result.members_.data.emplace<json::Value::Object>();
    std::set<std::string> seen;
    for (const std::string& word : words) {
        const std::size_t equals = word.find('=');
        if (equals == std::string::npos || equals == 0) {
            throw UsageError(fmt::format("\"{}\" is no option of a kernel; write key=value, such as sf=packed", word));
        }
        const std::string key = word.substr(0, equals);
        if (!seen.insert(key).second) throw UsageError(fmt::format("the option {} is given twice; give it once", key));
        members.emplace_back(key, value_of_word(word.substr(equals + 1)));
    }
    return result;
}

std::vector<std::string> Arguments::keys() const {
    std::vector<std::string> result;
    const auto* object = members_.as<json::Value::Object>();
    if (!object) return result;
    for (const auto& [key, value] : *object) result.push_back(key);
    return result;
}

void Arguments::wrong(std::string_view key, const char* wanted) const {
    throw UsageError(fmt::format("{}: the option {} is not {}; correct its value", where_, key, wanted));
}

std::string Arguments::text(std::string_view key, const std::string& otherwise) const {
    const json::Value* value = members_.find(key);
    if (!value) return otherwise;
    const auto* found = value->as<std::string>();
    if (!found) wrong(key, "a text");
    return *found;
}

std::int64_t Arguments::number(std::string_view key, std::int64_t otherwise) const {
    const json::Value* value = members_.find(key);
    if (!value) return otherwise;
    const auto* found = value->as<std::int64_t>();
    if (!found) wrong(key, "a whole number");
    return *found;
}

std::optional<double> Arguments::real(std::string_view key) const {
    const json::Value* value = members_.find(key);
    if (!value || value->as<std::nullptr_t>()) return std::nullopt;
    if (const auto* whole = value->as<std::int64_t>()) return static_cast<double>(*whole);
    const auto* found = value->as<double>();
    if (!found) wrong(key, "a number");
    return *found;
}

bool Arguments::flag(std::string_view key, bool otherwise) const {
    const json::Value* value = members_.find(key);
    if (!value) return otherwise;
    const auto* found = value->as<bool>();
    if (!found) wrong(key, "true or false");
    return *found;
}

std::vector<std::int64_t> Arguments::numbers(std::string_view key, const std::vector<std::int64_t>& otherwise) const {
    const json::Value* value = members_.find(key);
    if (!value) return otherwise;
    if (const auto* one = value->as<std::int64_t>()) return {*one};
    const auto* array = value->as<json::Value::Array>();
    if (!array) wrong(key, "a list of whole numbers");
    std::vector<std::int64_t> result;
    for (const json::Value& entry : *array) {
        const auto* number = entry.as<std::int64_t>();
        if (!number) wrong(key, "a list of whole numbers");
        result.push_back(*number);
    }
    return result;
}

std::string part_of(const Arguments& args, const std::vector<std::string>& known) {
    const std::string part = args.text("part", known.front());
    for (const std::string& name : known)
        if (part == name) return part;
    throw UsageError(fmt::format("{}: part is {}; use {}", args.where(), json::shown(part), fmt::join(known, " or ")));
}

}  // namespace tessera::tool
