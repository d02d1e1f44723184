#include <algorithm>
#include <cstdint>

#include "dsl/host/lane_ops.hpp"

namespace tessera::host {

namespace {

constexpr std::size_t warp = 32;

template <class T, ir::ReduceOp O>
T fold(T a, T b) {
    if constexpr (O == ir::ReduceOp::sum)  // wraps
        return static_cast<T>(static_cast<std::uint32_t>(a) + static_cast<std::uint32_t>(b));
    else if constexpr (O == ir::ReduceOp::bit_or)
        return a | b;
    else
        return O == ir::ReduceOp::max ? std::max(a, b) : std::min(a, b);
}

template <class T, ir::ReduceOp O>
void loop(void* out, const void* const* in, std::size_t n) {
    const auto* from = static_cast<const T*>(in[0]);
    auto* __restrict to = static_cast<T*>(out);
    for (std::size_t first = 0; first < n; first += warp) {
        const std::size_t end = std::min(n, first + warp);
        T all = from[first];
        for (std::size_t i = first + 1; i < end; ++i) all = fold<T, O>(all, from[i]);
        std::fill(to + first, to + end, all);
    }
}

template <class T>
LaneFunction for_operation(ir::ReduceOp op) {
    switch (op) {
        case ir::ReduceOp::sum: return &loop<T, ir::ReduceOp::sum>;
        case ir::ReduceOp::max: return &loop<T, ir::ReduceOp::max>;
        case ir::ReduceOp::min: return &loop<T, ir::ReduceOp::min>;
        case ir::ReduceOp::bit_or: return &loop<T, ir::ReduceOp::bit_or>;
        case ir::ReduceOp::dot: return nullptr;
    }
    return nullptr;
}

template <class Code>
void match_loop(void* out, const void* const* in, std::size_t n) {
    const auto* from = static_cast<const Code*>(in[0]);
    auto* __restrict to = static_cast<std::uint32_t*>(out);
    for (std::size_t i = 0; i < n; ++i) {
        const std::size_t first = i / warp * warp;
        to[i] = 0;
        for (std::size_t j = first; j < std::min(n, first + warp); ++j)
            to[i] |= std::uint32_t{from[j] == from[i]} << (j - first);
    }
}

}  // namespace

LaneFunction match_function(bool wide) { return wide ? &match_loop<std::uint64_t> : &match_loop<std::uint32_t>; }

LaneFunction warp_reduce_function(ir::ReduceOp op, Element type) {
    if (type == Element::i32) return for_operation<std::int32_t>(op);
    if (type == Element::u32 || (type == Element::boolean && op != ir::ReduceOp::sum))
        return for_operation<std::uint32_t>(op);
    return nullptr;
}

}  // namespace tessera::host
