#include <cstdint>
#include <cstring>

#include "dsl/host/lane_ops.hpp"

namespace tessera::host {

namespace {

using u32 = std::uint32_t;
using u64 = std::uint64_t;

template <class Code>
void select_loop(void* out, const void* const* in, std::size_t n) {
    const auto* condition = static_cast<const u32*>(in[0]);
    const auto* a = static_cast<const Code*>(in[1]);
    const auto* b = static_cast<const Code*>(in[2]);
    auto* __restrict to = static_cast<Code*>(out);
    for (std::size_t i = 0; i < n; ++i) to[i] = condition[i] != 0 ? a[i] : b[i];
}

template <class Code>
void copy_all(void* out, const void* const* in, std::size_t n) {
    std::memcpy(out, in[0], n * sizeof(Code));
}

template <class Code>
void broadcast_loop(void* out, const void* const* in, std::size_t n) {
    const Code value = *static_cast<const Code*>(in[0]);
    auto* __restrict to = static_cast<Code*>(out);
    for (std::size_t i = 0; i < n; ++i) to[i] = value;
}

template <class Code>
void shuffle_loop(void* out, const void* const* in, std::size_t n) {
    const auto* from = static_cast<const Code*>(in[0]);
    const std::size_t mask = *static_cast<const u32*>(in[1]) & 31;
    auto* __restrict to = static_cast<Code*>(out);
    for (std::size_t i = 0; i < n; ++i) to[i] = from[(i ^ mask) < n ? i ^ mask : i];
}

template <class Word, u32 Mask>
void extract_loop(void* out, const void* const* in, std::size_t n) {
    const auto* word = static_cast<const Word*>(in[0]);
    const u32 amount = *static_cast<const u32*>(in[1]);
    auto* __restrict to = static_cast<u32*>(out);
    for (std::size_t i = 0; i < n; ++i) to[i] = static_cast<u32>(word[i] >> amount) & Mask;
}

template <class Word>
void insert_loop(void* out, const void* const* in, std::size_t n) {
    const auto* word = static_cast<const Word*>(in[0]);
    const auto* value = static_cast<const u32*>(in[1]);
    const u32 amount = *static_cast<const u32*>(in[2]);
    auto* __restrict to = static_cast<Word*>(out);
    for (std::size_t i = 0; i < n; ++i) to[i] = word[i] | (Word{value[i]} << amount);
}

/// Entries of `Bits` bits, packed in two words or less.
template <int Bits, u32 Sign>
void lookup_loop(void* out, const void* const* in, std::size_t n) {
    const auto* code = static_cast<const u32*>(in[0]);
    const auto* low = static_cast<const u32*>(in[1]);
    const auto* high = static_cast<const u32*>(in[2]);
    auto* __restrict to = static_cast<u32*>(out);
    constexpr u32 in_low = 32 / Bits, mask = (1u << Bits) - 1;
    for (std::size_t i = 0; i < n; ++i) {
        const u32 entry = code[i] & 7u;
        const u32 word = entry < in_low ? low[i] : high[i];
        to[i] = (word >> (entry % in_low * Bits) & mask) ^ ((code[i] >> 3 & 1u) * Sign);
    }
}

}  // namespace

LaneFunction lookup_function(Element type, bool with_sign) {
    switch (type) {
        case Element::e2m1: return with_sign ? &lookup_loop<4, 0x8> : &lookup_loop<4, 0>;
        case Element::e4m3: return with_sign ? &lookup_loop<8, 0x80> : &lookup_loop<8, 0>;
        case Element::u8: return &lookup_loop<8, 0>;
        default: return nullptr;
    }
}
LaneFunction select_function(bool wide) { return wide ? &select_loop<u64> : &select_loop<u32>; }
LaneFunction copy_function(bool wide) { return wide ? &copy_all<u64> : &copy_all<u32>; }
LaneFunction broadcast_function(bool wide) { return wide ? &broadcast_loop<u64> : &broadcast_loop<u32>; }
LaneFunction shuffle_function(bool wide) { return wide ? &shuffle_loop<u64> : &shuffle_loop<u32>; }
LaneFunction insert_function(bool wide_word) { return wide_word ? &insert_loop<u64> : &insert_loop<u32>; }

LaneFunction extract_function(bool wide_word, int bits) {
    if (bits == 4) return wide_word ? &extract_loop<u64, 0xF> : &extract_loop<u32, 0xF>;
    if (bits == 8) return wide_word ? &extract_loop<u64, 0xFF> : &extract_loop<u32, 0xFF>;
    if (bits == 16) return wide_word ? &extract_loop<u64, 0xFFFF> : &extract_loop<u32, 0xFFFF>;
    return wide_word ? &extract_loop<u64, 0xFFFFFFFF> : &extract_loop<u32, 0xFFFFFFFF>;
}

}  // namespace tessera::host
