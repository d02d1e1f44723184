#pragma once

#include <algorithm>

#include "builder.hpp"
#include "dsl/base/error.hpp"

// What the tests of packed elements share.

namespace host_test {

inline constexpr int threads = 32;

/// Storage of bytes whose first one lies `shift` bytes past a multiple of 64.
struct Memory {
    std::vector<std::uint64_t> words;
    std::uint8_t* first;

    Memory(std::size_t bytes, std::size_t shift, std::uint8_t value) : words(bytes / 8 + 32) {
        const auto begin = reinterpret_cast<std::uintptr_t>(words.data());
        first = reinterpret_cast<std::uint8_t*>((begin + 63) / 64 * 64) + shift;
        std::fill(first, first + bytes, value);
    }
};

/// y[i] = x[i] for i < n, `lanes` elements a thread, one block.
struct PackedCopy {
    Builder b{"copy", threads};

    PackedCopy(Element type, int lanes, int pack, bool masked = true, std::int64_t shift = 0) {
        const Ref n = b.scalar("n");
        const int x = b.vector_tensor("x", type, n), y = b.vector_tensor("y", type, n);
        b.grid({b.i64c(1)});
        const Ref first = b.let(b.add(b.mul(b.thread64(), b.i64c(lanes)), b.i64c(shift)));
        const Ref inside = masked ? b.less(first, n) : nullptr;
        const int r = b.array("r", type, pack, lanes / pack);
        b.load(global(x, first, lanes, inside), r, 0, masked ? b.constant(type, 0) : nullptr);
        std::vector<Ref> words;
        for (int i = 0; i < lanes / pack; ++i) words.push_back(b.word(r, i));
        b.store(global(y, first, lanes, inside), words);
    }

    std::string error(std::uint64_t n, std::size_t shift = 0) const {
        const Memory x(4096, shift, 0), y(4096, 0, 0);
        return error_of<UsageError>(b.executable(), {{x.first, y.first}, {n}});
    }
};

}  // namespace host_test
