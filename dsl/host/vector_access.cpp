#include "dsl/host/vector_access.hpp"

#include <array>
#include <atomic>
#include <cstring>
#include <type_traits>

namespace tessera::host {

namespace {

constexpr int most_lanes = 32;

/// `Count` is the number of lanes, so that their loop unrolls; 0: known only when it runs.
template <class Memory, int Count, bool Predicated>
void load(const VectorAccess& a) {
    using Register = std::conditional_t<sizeof(Memory) == 8, std::uint64_t, std::uint32_t>;
    const int count = Count > 0 ? Count : a.count;
    std::array<Register*, most_lanes> lanes;
    for (int l = 0; l < count; ++l) lanes[static_cast<std::size_t>(l)] = static_cast<Register*>(a.lanes[l]);
    const auto* fill = static_cast<const Register*>(a.fill);
    for (std::size_t t = 0; t < a.threads; ++t) {
        if (Predicated && a.predicate[t] == 0) {
            for (int l = 0; l < count; ++l) lanes[static_cast<std::size_t>(l)][t] = fill[t];
            continue;
        }
        std::array<Memory, Count == 0 ? most_lanes : Count> values;
        std::memcpy(values.data(), a.base + a.offset[t] * static_cast<std::int64_t>(sizeof(Memory)),
                    static_cast<std::size_t>(count) * sizeof(Memory));
        for (int l = 0; l < count; ++l) lanes[static_cast<std::size_t>(l)][t] = values[static_cast<std::size_t>(l)];
    }
}

template <class Memory, int Count, bool Predicated>
void store(const VectorAccess& a) {
    using Register = std::conditional_t<sizeof(Memory) == 8, std::uint64_t, std::uint32_t>;
    const int count = Count > 0 ? Count : a.count;
    std::array<const Register*, most_lanes> lanes;
    for (int l = 0; l < count; ++l) lanes[static_cast<std::size_t>(l)] = static_cast<const Register*>(a.lanes[l]);
    for (std::size_t t = 0; t < a.threads; ++t) {
        if (Predicated && a.predicate[t] == 0) continue;
        std::array<Memory, Count == 0 ? most_lanes : Count> values;
        for (int l = 0; l < count; ++l)
            values[static_cast<std::size_t>(l)] = static_cast<Memory>(lanes[static_cast<std::size_t>(l)][t]);
        std::memcpy(a.base + a.offset[t] * static_cast<std::int64_t>(sizeof(Memory)), values.data(),
                    static_cast<std::size_t>(count) * sizeof(Memory));
    }
}

template <class Memory, int Count>
void load_any(const VectorAccess& a) {
    a.predicate == nullptr ? load<Memory, Count, false>(a) : load<Memory, Count, true>(a);
}
template <class Memory, int Count>
void store_any(const VectorAccess& a) {
    a.predicate == nullptr ? store<Memory, Count, false>(a) : store<Memory, Count, true>(a);
}

template <class Memory>
AccessFunction pick(bool is_store, int lanes) {
    switch (lanes) {
        case 1: return is_store ? &store_any<Memory, 1> : &load_any<Memory, 1>;
        case 2: return is_store ? &store_any<Memory, 2> : &load_any<Memory, 2>;
        case 4: return is_store ? &store_any<Memory, 4> : &load_any<Memory, 4>;
        case 8: return is_store ? &store_any<Memory, 8> : &load_any<Memory, 8>;
        case 16: return is_store ? &store_any<Memory, 16> : &load_any<Memory, 16>;
        default: return lanes > most_lanes ? nullptr : is_store ? &store_any<Memory, 0> : &load_any<Memory, 0>;
    }
}

AccessFunction for_type(bool is_store, Element type, int lanes) {
    switch (bits_of(type)) {
        case 8: return pick<std::uint8_t>(is_store, lanes);
        case 16: return pick<std::uint16_t>(is_store, lanes);
        case 32: return pick<std::uint32_t>(is_store, lanes);
        case 64: return pick<std::uint64_t>(is_store, lanes);
        default: return is_store ? packed_store_function(type, lanes) : packed_load_function(type, lanes);
    }
}

template <class Memory>
void add(const VectorAccess& a) {
    const auto* values = static_cast<const Memory*>(a.lanes[0]);
    for (std::size_t t = 0; t < a.threads; ++t) {
        if (a.predicate != nullptr && a.predicate[t] == 0) continue;
        auto* at = reinterpret_cast<Memory*>(a.base + a.offset[t] * static_cast<std::int64_t>(sizeof(Memory)));
        std::atomic_ref<Memory>(*at).fetch_add(values[t], std::memory_order_relaxed);
    }
}

}  // namespace

AccessFunction add_function(Element type) {
    if (!is_integer(type) || bits_of(type) < 32) return nullptr;
    return bits_of(type) == 64 ? &add<std::uint64_t> : &add<std::uint32_t>;
}
AccessFunction load_function(Element type, int lanes) { return for_type(false, type, lanes); }
AccessFunction store_function(Element type, int lanes) { return for_type(true, type, lanes); }

}  // namespace tessera::host
