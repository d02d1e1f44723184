#include "tools/tessera/golden_case.hpp"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>

#include "dsl/base/error.hpp"

namespace tessera::tool {

namespace {

constexpr std::int64_t largest_span = std::int64_t{1} << 34;

const CaseTensor* find(const std::vector<CaseTensor>& tensors, std::string_view name) {
    for (const CaseTensor& t : tensors) {
        if (t.name == name) return &t;
    }
    return nullptr;
}

const std::string& entry(const SafetensorsFile& file, const std::string& name) {
    const auto found = file.metadata().find(name);
    if (found == file.metadata().end()) {
        throw UsageError(
            fmt::format("{}: this is no case of a kernel: its metadata has no \"{}\"; give a case file such "
                        "as those of tests/golden",
                        file.path(), name));
    }
    return found->second;
}

CaseTensor load_tensor(const SafetensorsFile& file, const StoredTensor& stored, const Arguments& strides) {
    const std::string where = fmt::format("{}: the tensor {}", file.path(), stored.name);
    if (bits_of(stored.type) % 8 != 0) {
        throw UsageError(
            fmt::format("{} has the type {}; store such values packed, as U8 or I8", where, name_of(stored.type)));
    }
    const std::size_t prefix = stored.name.find('.') + 1;
    CaseTensor tensor{stored.name.substr(prefix), stored.type, stored.shape, {}, {}};
    tensor.strides = strides.numbers(stored.name, dense_strides(stored.shape));
    if (tensor.strides.size() != tensor.shape.size()) {
        throw UsageError(fmt::format("{} has {} extents but {} strides; correct its strides", where,
                                     tensor.shape.size(), tensor.strides.size()));
    }
    span_of(tensor.shape, tensor.strides, where);
    tensor.values = file.read(stored);
    return tensor;
}

/// Calls visit(position in elements, index in logical order) for every element; the last axis runs fastest.
template <class Visit>
void for_each_element(const std::vector<std::int64_t>& shape, const std::vector<std::int64_t>& strides, Visit&& visit) {
    std::int64_t count = 1;
    for (std::int64_t extent : shape) count *= extent;
    std::vector<std::int64_t> at(shape.size(), 0);
    std::int64_t position = 0;
    for (std::int64_t index = 0; index < count; ++index) {
        visit(static_cast<std::size_t>(position), static_cast<std::size_t>(index));
        for (std::size_t axis = shape.size(); axis-- > 0;) {
            position += strides[axis];
            if (++at[axis] < shape[axis]) break;
            position -= strides[axis] * shape[axis];
            at[axis] = 0;
        }
    }
}

}  // namespace

const CaseTensor* Case::input(std::string_view name) const { return find(inputs, name); }
const CaseTensor* Case::output(std::string_view name) const { return find(outputs, name); }

std::vector<std::int64_t> dense_strides(const std::vector<std::int64_t>& shape) {
    std::vector<std::int64_t> strides(shape.size(), 1);
    for (std::size_t axis = shape.size(); axis-- > 1;)
        strides[axis - 1] = strides[axis] * std::max<std::int64_t>(shape[axis], 1);
    return strides;
}

std::int64_t span_of(const std::vector<std::int64_t>& shape, const std::vector<std::int64_t>& strides,
                     const std::string& where) {
    std::int64_t span = 1;
    bool empty = false;
    for (std::size_t axis = 0; axis < shape.size(); ++axis) {
        std::int64_t reach = 0;
        empty = empty || shape[axis] == 0;
        if (strides[axis] < 0) {
            throw UsageError(
                fmt::format("{} has the negative stride {}; give strides of 0 or more", where, strides[axis]));
        }
        if (shape[axis] > 1 && (__builtin_mul_overflow(shape[axis] - 1, strides[axis], &reach) ||
                                __builtin_add_overflow(span, reach, &span) || span > largest_span)) {
            throw UsageError(fmt::format("{} with the extents {} and strides {} reaches too far; give smaller strides",
                                         where, json::list(shape), json::list(strides)));
        }
    }
    return empty ? 0 : span;
}

std::vector<std::byte> laid_out(const CaseTensor& tensor, std::byte fill) {
    const std::size_t width = tensor.value_bytes();
    const std::int64_t span = span_of(tensor.shape, tensor.strides, tensor.name);
    std::vector<std::byte> memory(static_cast<std::size_t>(span) * width, fill);
    for_each_element(tensor.shape, tensor.strides, [&](std::size_t position, std::size_t index) {
        std::memcpy(&memory[position * width], &tensor.values[index * width], width);
    });
    return memory;
}

std::vector<std::byte> gathered(const std::vector<std::byte>& memory, const std::vector<std::int64_t>& shape,
                                const std::vector<std::int64_t>& strides, std::size_t value_bytes) {
    std::vector<std::byte> values;
    values.reserve(memory.size());
    for_each_element(shape, strides, [&](std::size_t position, std::size_t) {
        const std::byte* from = &memory[position * value_bytes];
        values.insert(values.end(), from, from + value_bytes);
    });
    return values;
}

Case load_case(const std::string& path) {
    const SafetensorsFile file = SafetensorsFile::open(path);
    Case result{path, entry(file, "kernel"), Arguments::from_json(entry(file, "args"), path), {}, {}};
    const Arguments strides = Arguments::from_json(entry(file, "strides"), path);
    for (const std::string& key : strides.keys()) {
        if (!file.find(key)) {
            throw UsageError(
                fmt::format("{}: there are strides for {}, but no such tensor; correct the case", path, key));
        }
    }
    for (const StoredTensor& stored : file.tensors()) {
        const bool in = stored.name.rfind("in.", 0) == 0;
        if (!in && stored.name.rfind("out.", 0) != 0) {
            throw UsageError(fmt::format(
                "{}: the tensor {} is neither an input (in.…) nor an output (out.…); rename it", path, stored.name));
        }
        (in ? result.inputs : result.outputs).push_back(load_tensor(file, stored, strides));
    }
    return result;
}

}  // namespace tessera::tool
