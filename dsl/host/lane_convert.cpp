#include <bit>
#include <type_traits>

#include "dsl/host/exp.hpp"
#include "dsl/host/lane_ops.hpp"
#include "dsl/host/lane_values.hpp"
#include "dsl/host/log1p.hpp"

namespace tessera::host {

namespace {

using ir::UnaryOp;

template <UnaryOp O, Element E>
auto unary_result(typename Values<E>::Code a) {
    using Number = typename Values<E>::Number;
    if constexpr (O == UnaryOp::bit_not) {
        return E == Element::boolean ? a ^ 1 : Values<E>::encode(static_cast<Number>(~a));
    } else if constexpr (O == UnaryOp::popcount) {
        return static_cast<typename Values<E>::Code>(std::popcount(a));
    } else if constexpr (O == UnaryOp::rsqrt) {
        using Wider = std::conditional_t<E == Element::f64, long double, double>;
        return Values<E>::encode(static_cast<Number>(Wider{1} / std::sqrt(static_cast<Wider>(Values<E>::decode(a)))));
    } else if constexpr (O == UnaryOp::exp) {
        return Values<E>::encode(rounded_exp(Values<E>::decode(a)));
    } else if constexpr (O == UnaryOp::sqrt) {
        return Values<E>::encode(std::sqrt(Values<E>::decode(a)));
    } else if constexpr (O == UnaryOp::log1p) {
        return Values<E>::encode(rounded_log1p(Values<E>::decode(a)));
    } else if constexpr (is_float(E)) {
        return O == UnaryOp::neg ? a ^ sign_bit<E> : a & ~sign_bit<E>;
    } else {
        const Number x = Values<E>::decode(a);
        const auto negative = Values<E>::encode(static_cast<Number>(0 - a));
        return O == UnaryOp::neg || x < 0 ? negative : a;
    }
}

template <UnaryOp O, Element E>
void unary_loop(void* out, const void* const* in, std::size_t n) {
    using Code = typename Values<E>::Code;
    const Code* a = static_cast<const Code*>(in[0]);
    auto* __restrict to = static_cast<Code*>(out);
    for (std::size_t i = 0; i < n; ++i) to[i] = unary_result<O, E>(a[i]);
}

constexpr bool has_meaning(UnaryOp op, Element e) {
    if (e == Element::boolean) return op == UnaryOp::bit_not;
    if (op >= UnaryOp::exp) return e == Element::f32;
    if (op == UnaryOp::popcount) return e == Element::u32;
    if (e == Element::ue8m0) return false;
    if (packed_elements_of(e) > 1) return op == UnaryOp::neg || op == UnaryOp::abs;
    return is_float(e) ? op != UnaryOp::bit_not : op != UnaryOp::rsqrt;
}

template <UnaryOp O>
LaneFunction for_operation(Element type) {
    return for_element(type, []<Element E>() -> LaneFunction {
        if constexpr (has_meaning(O, E)) {
            return &unary_loop<O, E>;
        } else {
            return nullptr;
        }
    });
}

/// Whether each value of the type is one of bf16.
constexpr bool fits_bf16(Element e) {
    return e == Element::e5m2 || e == Element::e4m3 || e == Element::e5m6 || e == Element::e2m1 || e == Element::ue8m0;
}

/// One conversion. The pairs that kernels use in inner loops have forms that vectorise; convert_bits defines the rest.
template <Element From, Element To>
auto cast_one(typename Values<From>::Code code) {
    using ToCode = typename Values<To>::Code;
    using ToNumber = typename Values<To>::Number;
    constexpr bool from_small = is_float(From) && From != Element::f64;
    constexpr bool from_integer = !is_float(From);
    if constexpr (To == Element::boolean) {
        return static_cast<ToCode>(Values<From>::decode(code) != 0);
    } else if constexpr (from_small && To == Element::f32) {
        return convert::bits(Values<From>::decode(code));
    } else if constexpr (From == Element::e2m1 && To == Element::e4m3) {
        return convert::e4m3_from_e2m1(code);
    } else if constexpr (fits_bf16(From) && To == Element::bf16) {
        return convert::bits(Values<From>::decode(code)) >> 16;
    } else if constexpr (from_small && is_float(To) && To != Element::f64) {
        return Values<To>::encode(Values<From>::decode(code));
    } else if constexpr (from_integer && (is_integer(To) || To == Element::f32 || To == Element::f64)) {
        return Values<To>::encode(static_cast<ToNumber>(Values<From>::decode(code)));
    } else {
        return static_cast<ToCode>(convert_bits(From, To, code));
    }
}

template <Element From, Element To>
void cast_loop(void* out, const void* const* in, std::size_t n) {
    const auto* a = static_cast<const typename Values<From>::Code*>(in[0]);
    auto* __restrict to = static_cast<typename Values<To>::Code*>(out);
    for (std::size_t i = 0; i < n; ++i) to[i] = cast_one<From, To>(a[i]);
}

}  // namespace

LaneFunction unary_function(UnaryOp op, Element type) {
    switch (op) {
        case UnaryOp::neg: return for_operation<UnaryOp::neg>(type);
        case UnaryOp::abs: return for_operation<UnaryOp::abs>(type);
        case UnaryOp::bit_not: return for_operation<UnaryOp::bit_not>(type);
        case UnaryOp::rsqrt: return for_operation<UnaryOp::rsqrt>(type);
        case UnaryOp::popcount: return for_operation<UnaryOp::popcount>(type);
        case UnaryOp::exp: return for_operation<UnaryOp::exp>(type);
        case UnaryOp::sqrt: return for_operation<UnaryOp::sqrt>(type);
        case UnaryOp::log1p: return for_operation<UnaryOp::log1p>(type);
    }
    return nullptr;
}

LaneFunction cast_function(Element from, Element to) {
    return for_element(from, [to]<Element From>() -> LaneFunction {
        return for_element(to, []<Element To>() -> LaneFunction { return &cast_loop<From, To>; });
    });
}

}  // namespace tessera::host
