#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "dsl/base/convert.hpp"
#include "dsl/base/element.hpp"

// How a register's code becomes the number that an operation computes with, and back.

namespace tessera::host {

template <Element E>
struct Values;

template <>
struct Values<Element::f32> {
    using Code = std::uint32_t;
    using Number = float;
    static Number decode(Code c) { return std::bit_cast<float>(c); }
    static Code encode(Number x) {
        const Code c = std::bit_cast<Code>(x);
        return convert::is_nan(c) ? nan_f32 : c;
    }
};

template <>
struct Values<Element::f64> {
    using Code = std::uint64_t;
    using Number = double;
    static Number decode(Code c) { return std::bit_cast<double>(c); }
    static Code encode(Number x) { return std::bit_cast<Code>(x); }
};

template <float (*Decode)(std::uint32_t), std::uint32_t (*Encode)(float)>
struct SmallFloat {
    using Code = std::uint32_t;
    using Number = float;
    static Number decode(Code c) { return Decode(c); }
    static Code encode(Number x) { return Encode(x); }
};
template <>
struct Values<Element::bf16> : SmallFloat<convert::from_bf16, convert::to_bf16> {};
template <>
struct Values<Element::tf32> : SmallFloat<convert::from_tf32, convert::to_tf32> {};
template <>
struct Values<Element::f16> : SmallFloat<convert::from_f16, convert::to_f16> {};
template <>
struct Values<Element::e5m2> : SmallFloat<convert::from_e5m2, convert::to_e5m2> {};
template <>
struct Values<Element::e4m3> : SmallFloat<convert::from_e4m3, convert::to_e4m3> {};
template <>
struct Values<Element::e5m6> : SmallFloat<convert::from_e5m6, convert::to_e5m6> {};
template <>
struct Values<Element::e2m1> : SmallFloat<convert::from_e2m1, convert::to_e2m1> {};
template <>
struct Values<Element::ue8m0> : SmallFloat<convert::from_ue8m0, convert::to_ue8m0> {};

template <class T>
struct Integer {
    using Code = std::conditional_t<sizeof(T) == 8, std::uint64_t, std::uint32_t>;
    using Number = T;
    static Number decode(Code c) { return static_cast<T>(c); }
    static Code encode(Number x) { return static_cast<std::make_unsigned_t<T>>(x); }
};
template <>
struct Values<Element::i8> : Integer<std::int8_t> {};
template <>
struct Values<Element::i16> : Integer<std::int16_t> {};
template <>
struct Values<Element::i32> : Integer<std::int32_t> {};
template <>
struct Values<Element::i64> : Integer<std::int64_t> {};
template <>
struct Values<Element::u8> : Integer<std::uint8_t> {};
template <>
struct Values<Element::u16> : Integer<std::uint16_t> {};
template <>
struct Values<Element::u32> : Integer<std::uint32_t> {};
template <>
struct Values<Element::u64> : Integer<std::uint64_t> {};
template <>
struct Values<Element::boolean> : Integer<std::uint8_t> {};

/// Where the sign bit of a float's code stands.
template <Element E>
constexpr typename Values<E>::Code sign_bit = typename Values<E>::Code{1} << (bits_of(E) - 1);

/// Calls fn.template operator()<E>() for the element, or returns null if it has no values on the host.
template <class Fn>
auto for_element(Element e, Fn&& fn) -> decltype(fn.template operator()<Element::f32>()) {
    switch (e) {
        case Element::f64: return fn.template operator()<Element::f64>();
        case Element::f32: return fn.template operator()<Element::f32>();
        case Element::tf32: return fn.template operator()<Element::tf32>();
        case Element::f16: return fn.template operator()<Element::f16>();
        case Element::bf16: return fn.template operator()<Element::bf16>();
        case Element::e5m2: return fn.template operator()<Element::e5m2>();
        case Element::e4m3: return fn.template operator()<Element::e4m3>();
        case Element::e5m6: return fn.template operator()<Element::e5m6>();
        case Element::e2m1: return fn.template operator()<Element::e2m1>();
        case Element::ue8m0: return fn.template operator()<Element::ue8m0>();
        case Element::i8: return fn.template operator()<Element::i8>();
        case Element::i16: return fn.template operator()<Element::i16>();
        case Element::i32: return fn.template operator()<Element::i32>();
        case Element::i64: return fn.template operator()<Element::i64>();
        case Element::u8: return fn.template operator()<Element::u8>();
        case Element::u16: return fn.template operator()<Element::u16>();
        case Element::u32: return fn.template operator()<Element::u32>();
        case Element::u64: return fn.template operator()<Element::u64>();
        case Element::boolean: return fn.template operator()<Element::boolean>();
        default: return nullptr;
    }
}

}  // namespace tessera::host
