#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/json.hpp"

namespace tessera::tool {

/// The options of a kernel by name: the `args` of a golden case, or key=value words of a command line. Every reader of
/// a value says which type it wants; a value of another type is an error of the caller.
class Arguments {
public:
    /// From a JSON object. Errors: UsageError that begins with `where`.
    static Arguments from_json(const std::string& text, const std::string& where);
    /// From words such as "sf=packed", "block_size=128x128", "round_sf=true"; `where` they stand.
    static Arguments from_words(const std::vector<std::string>& words, const std::string& where = "the command line");

    std::vector<std::string> keys() const;
    bool has(std::string_view key) const { return members_.find(key) != nullptr; }

    std::string text(std::string_view key, const std::string& otherwise) const;
    std::int64_t number(std::string_view key, std::int64_t otherwise) const;
    /// Nothing if the option is not given or null.
    std::optional<double> real(std::string_view key) const;
    bool flag(std::string_view key, bool otherwise) const;
    /// A list of numbers; also "128x128" and a single number.
    std::vector<std::int64_t> numbers(std::string_view key, const std::vector<std::int64_t>& otherwise) const;

    const std::string& where() const { return where_; }

private:
    [[noreturn]] void wrong(std::string_view key, const char* wanted) const;

    std::string where_;  // "case.safetensors", for messages
    json::Value members_;
};

/// The option `part`, of an operation of several kernels: which of `known` is meant, the first if nothing is said.
/// Errors: UsageError.
std::string part_of(const Arguments& args, const std::vector<std::string>& known);

}  // namespace tessera::tool
