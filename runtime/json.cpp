#include "runtime/json.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <set>

namespace tessera::json {

const Value* Value::find(std::string_view name) const {
    const Object* object = as<Object>();
    if (!object) return nullptr;
    for (const auto& [key, value] : *object) {
        if (key == name) return &value;
    }
    return nullptr;
}

namespace {

bool begins_with_any(std::string_view text, std::initializer_list<std::string_view> words) {
    for (std::string_view word : words) {
        if (text.substr(0, word.size()) == word) return true;
    }
    return false;
}

/// Receives the parser's events and builds the tree. The parser itself keeps one bit a bracket, so refusing a bracket
/// here bounds the memory of hostile texts; it also sees both of two equal names, which a finished tree does not.
class Builder {
public:
    using number_integer_t = nlohmann::json::number_integer_t;
    using number_unsigned_t = nlohmann::json::number_unsigned_t;
    using number_float_t = nlohmann::json::number_float_t;
    using string_t = nlohmann::json::string_t;
    using binary_t = nlohmann::json::binary_t;

    Builder(std::string_view text, const Limits& limits, Value& root) : text_(text), limits_(limits), root_(root) {}

    const std::string& why() const { return why_; }

    bool null() { return put(Value{nullptr}) != nullptr; }
    bool boolean(bool value) { return put(Value{value}) != nullptr; }
    bool number_integer(number_integer_t value) { return put(Value{value}) != nullptr; }
    bool number_unsigned(number_unsigned_t value) {
        if (value <= static_cast<number_unsigned_t>(INT64_MAX)) return number_integer(static_cast<std::int64_t>(value));
        return put(Value{static_cast<double>(value)}) != nullptr;
    }
    bool number_float(number_float_t value, const string_t&) { return put(Value{value}) != nullptr; }
    bool string(string_t& value) { return put(Value{std::move(value)}) != nullptr; }
    bool binary(binary_t&) { return refuse("it holds binary data"); }

    bool start_object(std::size_t) {
        names_.emplace_back();
        return open(Value{Value::Object{}});
    }
    bool start_array(std::size_t) { return open(Value{Value::Array{}}); }
    bool end_object() {
        names_.pop_back();
        open_.pop_back();
        return true;
    }
    bool end_array() {
        open_.pop_back();
        return true;
    }
    bool key(string_t& name) {
        if (!names_.back().insert(name).second) return refuse(fmt::format("the name {} stands twice", shown(name)));
        name_ = std::move(name);
        return true;
    }

    bool parse_error(std::size_t position, const std::string& last_token, const nlohmann::json::exception&) {
        const std::size_t at = position == 0 ? 0 : position - 1;
        if (at >= text_.size()) return refuse("the text ends too early");
        const std::size_t begin = at + 1 >= last_token.size() ? at + 1 - last_token.size() : 0;
        for (std::size_t from : {begin, at}) {
            if (begins_with_any(text_.substr(from), {"NaN", "nan", "Infinity", "-Infinity", "inf", "-inf", "-NaN"})) {
                return refuse(fmt::format("NaN and Infinity are no JSON (at byte {})", from));
            }
        }
        return refuse(fmt::format("it breaks the syntax at byte {}", at));
    }

private:
    bool refuse(std::string why) {
        why_ = std::move(why);
        return false;
    }

    Value* put(Value value) {
        if (++values_ > limits_.values) {
            refuse(fmt::format("it holds more than {} values", limits_.values));
            return nullptr;
        }
        if (open_.empty()) {
            root_ = std::move(value);
            return &root_;
        }
        if (auto* array = std::get_if<Value::Array>(&open_.back()->data)) return &array->emplace_back(std::move(value));
        auto& object = std::get<Value::Object>(open_.back()->data);
        return &object.emplace_back(std::move(name_), std::move(value)).second;
    }

    bool open(Value value) {
        if (open_.size() >= limits_.depth) {
            return refuse(fmt::format("its brackets are nested more than {} deep", limits_.depth));
        }
        Value* placed = put(std::move(value));
        if (!placed) return false;
        open_.push_back(placed);
        return true;
    }

    std::string_view text_;
    Limits limits_;
    Value& root_;
    std::vector<Value*> open_;                  // only the last one grows, so the addresses stay valid
    std::vector<std::set<std::string>> names_;  // one set for each open object
    std::string name_;
    std::size_t values_ = 0;
    std::string why_;
};

}  // namespace

bool parse(std::string_view text, const Limits& limits, Value& out, std::string& why) {
    Builder builder(text, limits, out);
    if (nlohmann::json::sax_parse(text.begin(), text.end(), &builder)) return true;
    why = builder.why().empty() ? "it is not valid JSON" : builder.why();
    return false;
}

std::string quote(std::string_view text) {
    return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string list(const std::vector<std::int64_t>& numbers) {
    std::string text = "[";
    for (std::size_t i = 0; i < numbers.size(); ++i) text += (i == 0 ? "" : ", ") + std::to_string(numbers[i]);
    return text + "]";
}

std::string shown(std::string_view text) {
    return text.size() <= 80 ? quote(text) : quote(std::string(text.substr(0, 77)) + "...");
}

}  // namespace tessera::json
