#include "tools/tessera/mhc_case.hpp"

#include <bit>
#include <cstring>
#include <fmt/format.h>

#include "dsl/base/error.hpp"

namespace tessera::tool {

mhc_reference::Numbers numbers(const Case& the_case, const char* name) {
    const CaseTensor* t = the_case.input(name);
    if (!t) return {};
    if (t->type != StoredType::F32 && t->type != StoredType::BF16)
        throw UsageError(
            fmt::format("{}: the input {} is {}; it must be F32 or BF16", the_case.file, name, name_of(t->type)));
    const std::size_t width = t->value_bytes();
    mhc_reference::Numbers values(t->values.size() / width);
    for (std::size_t i = 0; i < values.size(); ++i) {
        std::uint32_t bits = 0;
        std::memcpy(&bits, &t->values[i * width], width);
        values[i] = std::bit_cast<float>(width == 2 ? bits << 16 : bits);
    }
    return values;
}

namespace {

std::int64_t count_of(const std::vector<std::int64_t>& shape, std::size_t axes) {
    std::int64_t product = 1;
    for (std::size_t i = 0; i < axes; ++i) product *= shape[i];
    return product;
}

}  // namespace

mhc_reference::Extents extents_with_hidden(const Case& the_case, const char* name) {
    const std::vector<std::int64_t>& shape = the_case.input(name)->shape;
    const std::size_t rank = shape.size();
    if (rank < 2)
        throw UsageError(
            fmt::format("{}: {} has {} axes; its last two are streams and channels", the_case.file, name, rank));
    return {count_of(shape, rank - 2), shape[rank - 2], shape[rank - 1]};
}

mhc_reference::Extents extents_without_hidden(const Case& the_case, const char* name, std::int64_t columns) {
    const std::vector<std::int64_t>& shape = the_case.input(name)->shape;
    if (shape.empty() || columns < 1)
        throw UsageError(fmt::format("{}: {} has no axis of streams", the_case.file, name));
    return {count_of(shape, shape.size()) / columns, columns, 0};
}

Rule limited(const mhc_reference::Exact& exact) {
    Rule rule;
    rule.limits = exact.limit;
    for (double& limit : rule.limits) limit *= 2;  // the file and ours may both be off
    return rule;
}

bool backward_pass(const Arguments& args) {
    const std::string pass = args.text("pass", "forward");
    if (pass != "forward" && pass != "backward")
        throw UsageError(fmt::format("{}: pass is {}; use forward or backward", args.where(), json::shown(pass)));
    return pass == "backward";
}

float real_or(const Arguments& args, const char* key, double otherwise) {
    return static_cast<float>(args.real(key).value_or(otherwise));
}

}  // namespace tessera::tool
