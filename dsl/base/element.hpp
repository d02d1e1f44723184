#pragma once

#include <cstdint>

namespace tessera {

/// The element types of tiles and tensors. The order is part of no format.
enum class Element : std::uint8_t {
    f64,
    f32,
    tf32,
    f16,
    bf16,
    e5m2,
    e4m3,
    e5m6,
    e2m1,
    ue8m0,
    i8,
    i16,
    i32,
    i64,
    u8,
    u16,
    u32,
    u64,
    boolean,
};

inline constexpr int element_count = 19;

inline constexpr Element f64 = Element::f64;
inline constexpr Element f32 = Element::f32;
inline constexpr Element tf32 = Element::tf32;
inline constexpr Element f16 = Element::f16;
inline constexpr Element bf16 = Element::bf16;
inline constexpr Element e5m2 = Element::e5m2;
inline constexpr Element e4m3 = Element::e4m3;
inline constexpr Element e5m6 = Element::e5m6;
inline constexpr Element e2m1 = Element::e2m1;
inline constexpr Element ue8m0 = Element::ue8m0;
inline constexpr Element i8 = Element::i8;
inline constexpr Element i16 = Element::i16;
inline constexpr Element i32 = Element::i32;
inline constexpr Element i64 = Element::i64;
inline constexpr Element u8 = Element::u8;
inline constexpr Element u16 = Element::u16;
inline constexpr Element u32 = Element::u32;
inline constexpr Element u64 = Element::u64;
inline constexpr Element boolean = Element::boolean;

/// Width in bits; e2m1 has 4 and e5m6 12, all others whole bytes (boolean 8).
constexpr int bits_of(Element e) {
    switch (e) {
        case Element::f64:
        case Element::i64:
        case Element::u64: return 64;
        case Element::f32:
        case Element::tf32:
        case Element::i32:
        case Element::u32: return 32;
        case Element::f16:
        case Element::bf16:
        case Element::i16:
        case Element::u16: return 16;
        case Element::e5m6: return 12;
        case Element::e2m1: return 4;
        default: return 8;
    }
}

/// Bits that an element takes in a register: as in memory, but e5m6 stands alone in 16 (its code in the low 12).
constexpr int register_bits_of(Element e) { return e == Element::e5m6 ? 16 : bits_of(e); }

/// Elements that share bytes in memory: extents, offsets and strides along the packed axis are multiples of it.
constexpr int packed_elements_of(Element e) { return e == Element::e2m1 ? 2 : e == Element::e5m6 ? 8 : 1; }

constexpr bool is_float(Element e) { return e <= Element::ue8m0; }
constexpr bool is_signed_integer(Element e) { return e >= Element::i8 && e <= Element::i64; }
constexpr bool is_unsigned_integer(Element e) { return e >= Element::u8 && e <= Element::u64; }
constexpr bool is_integer(Element e) { return is_signed_integer(e) || is_unsigned_integer(e); }

/// Name as it is written in the DSL: "bf16", "e4m3", "bool" …
const char* name_of(Element e);

/// Finds an element by that name; false if there is none.
bool parse_element(const char* name, Element& out);

}  // namespace tessera
