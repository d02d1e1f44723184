#pragma once

#include <catch2/catch.hpp>
#include <utility>
#include <vector>

#include "builder.hpp"

namespace host_test {

inline std::uint64_t bits_of_f32(float x) { return std::bit_cast<std::uint32_t>(x); }

/// make(b, operands) with operands read from memory by every thread, or written as constants; the result's code.
template <class Make>
std::uint64_t result_of(const std::vector<std::pair<Element, std::uint64_t>>& operands, bool constants, Make&& make) {
    constexpr int threads = 32;
    Builder b("one", threads);
    std::vector<Ref> refs;
    host::Arguments arguments;
    for (const auto& [type, bits] : operands) {
        if (constants) {
            refs.push_back(b.constant(type, bits));
            continue;
        }
        const int x = b.vector_tensor("x", type, b.i64c(1));
        const int r = b.array("r", type, 1, 1);
        b.load(global(x, b.i64c(0)), r, 0);
        refs.push_back(b.word(r, 0));
        arguments.tensors.push_back(const_cast<std::uint64_t*>(&bits));
    }
    const Ref result = make(b, refs);
    const int y = b.vector_tensor("y", result->type, b.i64c(threads));
    b.grid({b.i64c(1)});
    b.store(global(y, b.thread64()), {result});
    alignas(8) std::uint8_t out[threads * 8] = {};
    arguments.tensors.push_back(out);
    b.executable().run(arguments);
    const auto bytes = static_cast<std::size_t>(bits_of(result->type) / 8);
    std::uint64_t first = 0, last = 0;
    std::memcpy(&first, out, bytes);
    std::memcpy(&last, out + (threads - 1) * bytes, bytes);
    REQUIRE(first == last);
    return first;
}

}  // namespace host_test
