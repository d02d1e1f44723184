#include "tests/support/programs/launch.hpp"

#include <algorithm>
#include <cstring>
#include <exception>
#include <fmt/core.h>

#include "tests/support/programs/evaluator.hpp"

namespace tessera::test {
namespace {

constexpr std::uint8_t guard_byte = 0x5C;
constexpr std::size_t guard = 512;

}  // namespace

Buffers::Buffers(const ProgramCase& c) : case_(c) {
    for (std::size_t i = 0; i < c.tensors.size(); ++i) {
        const auto& contents = c.tensors[i];
        const auto align = static_cast<std::size_t>(c.program.ir().tensors[i].align);
        memory_.emplace_back(contents.size() + 3 * guard, guard_byte);
        std::uint8_t* start = memory_.back().data() + guard;
        while (reinterpret_cast<std::uintptr_t>(start) % (2 * align) != align) ++start;
        std::copy(contents.begin(), contents.end(), start);
        bases_.push_back(start);
    }
}

std::string Buffers::broken_guard() const {
    for (std::size_t i = 0; i < memory_.size(); ++i) {
        const std::uint8_t* base = static_cast<const std::uint8_t*>(bases_[i]);
        const auto is_guard = [](std::uint8_t byte) { return byte == guard_byte; };
        const std::uint8_t* end = memory_[i].data() + memory_[i].size();
        const std::uint8_t* start = memory_[i].data();
        if (!std::all_of(start, base, is_guard) || !std::all_of(base + case_.tensors[i].size(), end, is_guard))
            return case_.program.ir().tensors[i].name;
    }
    return "";
}

std::string first_difference(const ProgramCase& c, const std::vector<void*>& expected, const std::vector<void*>& got) {
    for (std::size_t i = 0; i < c.tensors.size(); ++i) {
        const auto& tensor = c.program.ir().tensors[i];
        const auto size = static_cast<std::size_t>(bits_of(tensor.type) / 8);
        const auto* a = static_cast<const std::uint8_t*>(expected[i]);
        const auto* b = static_cast<const std::uint8_t*>(got[i]);
        for (std::size_t at = 0; at < c.tensors[i].size(); at += size) {
            if (std::memcmp(a + at, b + at, size) == 0) continue;
            std::uint64_t want = 0, have = 0;
            std::memcpy(&want, a + at, size), std::memcpy(&have, b + at, size);
            return fmt::format("{} ({}): element {} from the base is {:#x}, the evaluator has {:#x}", tensor.name,
                               name_of(tensor.type), at / size, have, want);
        }
    }
    return "";
}

std::string report_of(const ProgramCase& c, const ir::Offender& first) {
    return first.found() ? ir::sentence_of(c.program.ir(), first) : std::string();
}

std::string disagreement(const ProgramCase& c, const std::function<void(const Buffers&)>& run) {
    const Buffers expected(c), got(c);
    const std::string report = report_of(c, evaluate(c.program.ir(), expected.bases(), c.scalars));
    std::string said;
    try {
        run(got);
    } catch (const std::exception& error) {
        said = error.what();
    }
    if (said != report) return "said \"" + said + "\", the evaluator reports \"" + report + '"';
    if (const std::string name = got.broken_guard(); !name.empty()) return "written outside of " + name;
    return first_difference(c, expected.bases(), got.bases());
}

}  // namespace tessera::test
