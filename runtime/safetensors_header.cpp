#include "runtime/safetensors_header.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <tuple>
#include <utility>

#include "dsl/base/error.hpp"
#include "runtime/json.hpp"

namespace tessera {

std::string describe(const StoredTensor& tensor) {
    return fmt::format("{} {}", name_of(tensor.type), json::list(tensor.shape));
}

namespace safetensors {

namespace {

constexpr const char* cure = "fetch or write the file again";

/// Reads the header's values and knows which file and tensor it is talking about when one is wrong.
class Reader {
public:
    Reader(const std::string& path, std::uint64_t data_bytes) : path_(path), data_bytes_(data_bytes) {}

    [[noreturn]] void fail(const std::string& what) const {
        throw UsageError(fmt::format("{}: {}; {}", path_, what, cure));
    }
    [[noreturn]] void fail(const std::string& tensor, const std::string& what) const {
        fail(fmt::format("the tensor {} {}", json::shown(tensor), what));
    }

    StoredMetadata metadata(const json::Value& value) const {
        const auto* object = value.as<json::Value::Object>();
        if (!object) fail("its \"__metadata__\" is no object of texts");
        StoredMetadata result;
        for (const auto& [key, entry] : *object) {
            const auto* text = entry.as<std::string>();
            if (!text) fail(fmt::format("its metadata entry {} is no text", json::shown(key)));
            result.emplace(key, *text);
        }
        return result;
    }

    StoredTensor tensor(const std::string& name, const json::Value& value) const {
        const auto* object = value.as<json::Value::Object>();
        if (!object) fail(name, "is described by something else than an object");
        for (const auto& [key, entry] : *object) {
            if (key != "dtype" && key != "shape" && key != "data_offsets") {
                fail(name, fmt::format("has the field {}, which the format does not know", json::shown(key)));
            }
        }
        StoredTensor result{name, type(name, value), {}};
        result.shape = numbers(name, value, "shape");
        const std::vector<std::int64_t> offsets = numbers(name, value, "data_offsets");
        if (offsets.size() != 2) fail(name, fmt::format("has {} data_offsets instead of 2", offsets.size()));
        result.begin = static_cast<std::uint64_t>(offsets[0]);
        result.end = static_cast<std::uint64_t>(offsets[1]);
        check_size(result);
        return result;
    }

    /// The bytes must follow one another from 0 to the end of the file, as the format demands.
    void check_order(const std::vector<StoredTensor>& tensors) const {
        std::uint64_t at = 0;
        const StoredTensor* before = nullptr;
        for (const StoredTensor& t : tensors) {
            if (t.begin < at) {
                fail(t.name, fmt::format("overlaps the tensor {} (it begins at byte {}, the other ends at {})",
                                         json::shown(before->name), t.begin, at));
            }
            if (t.begin > at) {
                fail(
                    fmt::format("there is a hole of {} bytes before the tensor {}", t.begin - at, json::shown(t.name)));
            }
            at = t.end;
            before = &t;
        }
        if (at < data_bytes_) fail(fmt::format("{} bytes follow the last tensor", data_bytes_ - at));
    }

private:
    StoredType type(const std::string& name, const json::Value& value) const {
        const json::Value* field = value.find("dtype");
        const auto* text = field ? field->as<std::string>() : nullptr;
        if (!text) fail(name, "has no dtype");
        const std::optional<StoredType> known = stored_type(*text);
        if (!known) {
            throw UsageError(
                fmt::format("{}: the tensor {} has the dtype {}, which is none of the format's 22 types; convert it to "
                            "one of them, such as F32 or BF16",
                            path_, json::shown(name), json::shown(*text)));
        }
        return *known;
    }

    std::vector<std::int64_t> numbers(const std::string& name, const json::Value& value, const char* field) const {
        const json::Value* found = value.find(field);
        const auto* array = found ? found->as<json::Value::Array>() : nullptr;
        if (!array) fail(name, fmt::format("has no list \"{}\"", field));
        std::vector<std::int64_t> result;
        for (const json::Value& entry : *array) {
            const auto* number = entry.as<std::int64_t>();
            if (!number) fail(name, fmt::format("has something else than a whole number below 2^63 in its {}", field));
            if (*number < 0) fail(name, fmt::format("has the negative number {} in its {}", *number, field));
            result.push_back(*number);
        }
        return result;
    }

    void check_size(const StoredTensor& t) const {
        if (t.begin > t.end) fail(t.name, fmt::format("ends at byte {}, before its begin {}", t.end, t.begin));
        if (t.end > data_bytes_) {
            fail(t.name, fmt::format("ends at byte {} of the tensors, but the file holds only {}: it is cut off", t.end,
                                     data_bytes_));
        }
        std::uint64_t bytes = 0;
        std::string why;
        if (!bytes_of(t.type, t.shape, bytes, why)) fail(t.name, fmt::format("({}) {}", describe(t), why));
        if (bytes != t.bytes()) {
            fail(t.name, fmt::format("({}) needs {} bytes, but its offsets hold {}", describe(t), bytes, t.bytes()));
        }
    }

    const std::string& path_;
    std::uint64_t data_bytes_;
};

}  // namespace

bool bytes_of(StoredType type, const std::vector<std::int64_t>& shape, std::uint64_t& bytes, std::string& why) {
    std::int64_t bits = bits_of(type);
    bool empty = false;
    for (std::int64_t extent : shape) {
        empty = empty || extent == 0;
        if (extent != 0 && __builtin_mul_overflow(bits, extent, &bits)) {
            why = "is larger than any file can be";
            return false;
        }
    }
    if (empty) bits = 0;
    if (bits % 8 != 0) {
        why = "does not fill whole bytes";
        return false;
    }
    bytes = static_cast<std::uint64_t>(bits) / 8;
    return true;
}

Header parse_header(const std::string& path, std::string_view text, std::uint64_t data_bytes) {
    const Reader reader(path, data_bytes);
    json::Value root;
    std::string why;
    if (text.empty() || text.front() != '{')
        reader.fail("it is no safetensors file: its header does not begin with '{'");
    if (!json::parse(text, {}, root, why)) reader.fail(fmt::format("its header is not valid: {}", why));
    const auto* object = root.as<json::Value::Object>();
    if (!object) reader.fail("its header is no object");

    Header header;
    for (const auto& [name, value] : *object) {
        if (name == metadata_name) {
            header.metadata = reader.metadata(value);
        } else {
            header.tensors.push_back(reader.tensor(name, value));
        }
    }
    std::sort(header.tensors.begin(), header.tensors.end(), [](const StoredTensor& a, const StoredTensor& b) {
        return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
    });
    reader.check_order(header.tensors);
    return header;
}

std::string header_text(const std::vector<StoredTensor>& tensors, const StoredMetadata& metadata) {
    std::string text = "{";
    if (!metadata.empty()) {
        std::string entries;
        for (const auto& [key, value] : metadata) {
            entries += fmt::format("{}{}:{}", entries.empty() ? "" : ",", json::quote(key), json::quote(value));
        }
        text += fmt::format("\"{}\":{{{}}}", metadata_name, entries);
    }
    for (const StoredTensor& t : tensors) {
        text +=
            fmt::format("{}{}:{{\"dtype\":\"{}\",\"shape\":{},\"data_offsets\":[{},{}]}}", text.size() == 1 ? "" : ",",
                        json::quote(t.name), name_of(t.type), json::list(t.shape), t.begin, t.end);
    }
    text += "}";
    text.append((8 - text.size() % 8) % 8, ' ');
    return text;
}

}  // namespace safetensors
}  // namespace tessera
