#include <array>
#include <cstring>

#include "dsl/host/vector_access.hpp"

// Loads and stores of the types whose elements share bytes, a group of them at a time.

namespace tessera::host {

namespace {

using u32 = std::uint32_t;

/// Two a byte, the low nibble first.
struct E2m1 {
    static constexpr int elements = 2, bytes = 1;
    static void unpack(const std::byte* from, u32* codes) {
        const auto byte = static_cast<u32>(*from);
        codes[0] = byte & 0xF;
        codes[1] = byte >> 4;
    }
    static void pack(const u32* codes, std::byte* to) { *to = static_cast<std::byte>(codes[0] | codes[1] << 4); }
};

/// Eight in three words, from the top bits of the first one down.
struct E5m6 {
    static constexpr int elements = 8, bytes = 12;
    static void unpack(const std::byte* from, u32* codes) {
        std::array<u32, 3> w;
        std::memcpy(w.data(), from, sizeof w);
        codes[0] = w[0] >> 20;
        codes[1] = (w[0] >> 8) & 0xFFF;
        codes[2] = (w[0] << 4 & 0xFF0) | w[1] >> 28;
        codes[3] = (w[1] >> 16) & 0xFFF;
        codes[4] = (w[1] >> 4) & 0xFFF;
        codes[5] = (w[1] << 8 & 0xF00) | w[2] >> 24;
        codes[6] = (w[2] >> 12) & 0xFFF;
        codes[7] = w[2] & 0xFFF;
    }
    static void pack(const u32* codes, std::byte* to) {
        const std::array<u32, 3> w = {codes[0] << 20 | codes[1] << 8 | codes[2] >> 4,
                                      codes[2] << 28 | codes[3] << 16 | codes[4] << 4 | codes[5] >> 8,
                                      codes[5] << 24 | codes[6] << 12 | codes[7]};
        std::memcpy(to, w.data(), sizeof w);
    }
};

template <class Format>
std::byte* address(const VectorAccess& a, std::size_t thread) {
    return a.base + a.offset[thread] / Format::elements * Format::bytes;
}

template <class Format, std::size_t Count>
void load(const VectorAccess& a) {
    std::array<u32*, Count> lanes;
    for (std::size_t l = 0; l < Count; ++l) lanes[l] = static_cast<u32*>(a.lanes[l]);
    const auto* fill = static_cast<const u32*>(a.fill);
    for (std::size_t t = 0; t < a.threads; ++t) {
        if (a.predicate != nullptr && a.predicate[t] == 0) {
            for (u32* lane : lanes) lane[t] = fill[t];
            continue;
        }
        std::array<std::byte, Count / Format::elements * Format::bytes> memory;
        std::memcpy(memory.data(), address<Format>(a, t), memory.size());
        std::array<u32, Count> codes;
        for (std::size_t g = 0; g < Count / Format::elements; ++g)
            Format::unpack(memory.data() + g * Format::bytes, codes.data() + g * Format::elements);
        for (std::size_t l = 0; l < Count; ++l) lanes[l][t] = codes[l];
    }
}

template <class Format, std::size_t Count>
void store(const VectorAccess& a) {
    std::array<const u32*, Count> lanes;
    for (std::size_t l = 0; l < Count; ++l) lanes[l] = static_cast<const u32*>(a.lanes[l]);
    for (std::size_t t = 0; t < a.threads; ++t) {
        if (a.predicate != nullptr && a.predicate[t] == 0) continue;
        std::array<u32, Count> codes;
        for (std::size_t l = 0; l < Count; ++l) codes[l] = lanes[l][t];
        std::array<std::byte, Count / Format::elements * Format::bytes> memory;
        for (std::size_t g = 0; g < Count / Format::elements; ++g)
            Format::pack(codes.data() + g * Format::elements, memory.data() + g * Format::bytes);
        std::memcpy(address<Format>(a, t), memory.data(), memory.size());
    }
}

template <class Format>
AccessFunction pick(bool is_store, int lanes) {
    if (lanes % Format::elements != 0) return nullptr;
    if constexpr (Format::elements <= 2) {
        if (lanes == 2) return is_store ? &store<Format, 2> : &load<Format, 2>;
        if (lanes == 4) return is_store ? &store<Format, 4> : &load<Format, 4>;
    }
    switch (lanes) {
        case 8: return is_store ? &store<Format, 8> : &load<Format, 8>;
        case 16: return is_store ? &store<Format, 16> : &load<Format, 16>;
        case 32: return is_store ? &store<Format, 32> : &load<Format, 32>;
        default: return nullptr;
    }
}

AccessFunction for_type(bool is_store, Element type, int lanes) {
    if (type == Element::e2m1) return pick<E2m1>(is_store, lanes);
    if (type == Element::e5m6) return pick<E5m6>(is_store, lanes);
    return nullptr;
}

}  // namespace

AccessFunction packed_load_function(Element type, int lanes) { return for_type(false, type, lanes); }
AccessFunction packed_store_function(Element type, int lanes) { return for_type(true, type, lanes); }

}  // namespace tessera::host
