#include <limits>
#include <type_traits>

#include "dsl/host/lane_ops.hpp"
#include "dsl/host/lane_values.hpp"

namespace tessera::host {

namespace {

using ir::BinaryOp;

constexpr bool is_comparison(BinaryOp op) { return op >= BinaryOp::eq; }

template <BinaryOp O, class T>
bool compare(T a, T b) {
    if constexpr (O == BinaryOp::eq) return a == b;
    if constexpr (O == BinaryOp::ne) return a != b;
    if constexpr (O == BinaryOp::lt) return a < b;
    if constexpr (O == BinaryOp::le) return a <= b;
    if constexpr (O == BinaryOp::gt) return a > b;
    if constexpr (O == BinaryOp::ge) return a >= b;
}

/// The operand that is larger (smaller), by code: nothing is rounded.
template <Element E, bool Largest>
auto extreme(typename Values<E>::Code a, typename Values<E>::Code b) {
    using Code = typename Values<E>::Code;
    const auto x = Values<E>::decode(a), y = Values<E>::decode(b);
    const Code if_equal = Largest ? (a & b) : (a | b);  // they differ only as −0 and +0
    const Code first = Largest ? a : b, second = Largest ? b : a;
    Code result = x > y ? first : if_equal;
    result = x < y ? second : result;
    result = x != x ? b : result;
    result = y != y ? a : result;
    const Code canonical = Values<E>::encode(std::numeric_limits<typename Values<E>::Number>::quiet_NaN());
    return ((x != x) & (y != y)) ? canonical : result;
}

/// The same, but NaN wins.
template <Element E, bool Largest>
auto extreme_or_nan(typename Values<E>::Code a, typename Values<E>::Code b) {
    const auto x = Values<E>::decode(a), y = Values<E>::decode(b);
    const auto canonical = Values<E>::encode(std::numeric_limits<typename Values<E>::Number>::quiet_NaN());
    return ((x != x) | (y != y)) ? canonical : extreme<E, Largest>(a, b);
}

template <BinaryOp O, Element E>
auto float_result(typename Values<E>::Code a, typename Values<E>::Code b) {
    if constexpr (O == BinaryOp::max_magnitude) {
        using Code = typename Values<E>::Code;
        constexpr auto sign = static_cast<Code>(Code{1} << (bits_of(E) - 1));
        const Code largest = extreme<E, true>(static_cast<Code>(a & ~sign), static_cast<Code>(b & ~sign));
        return static_cast<Code>(largest | ((a ^ b) & sign));
    } else if constexpr (O == BinaryOp::max || O == BinaryOp::min) {
        return extreme < E, O == BinaryOp::max > (a, b);
    } else if constexpr (O == BinaryOp::max_nan || O == BinaryOp::min_nan) {
        return extreme_or_nan < E, O == BinaryOp::max_nan > (a, b);
    } else {
        const auto x = Values<E>::decode(a), y = Values<E>::decode(b);
        if constexpr (O == BinaryOp::add) return Values<E>::encode(x + y);
        if constexpr (O == BinaryOp::sub) return Values<E>::encode(x - y);
        if constexpr (O == BinaryOp::mul) return Values<E>::encode(x * y);
        if constexpr (O == BinaryOp::div) return Values<E>::encode(x / y);
        if constexpr (O == BinaryOp::div_bounded)
            return Values<E>::encode(std::fabs(x) <= std::numeric_limits<float>::max() ? x / y : x - x);  // else NaN
    }
}

/// Division by zero gives all ones (and the dividend as remainder): lanes that a mask switches off may divide by
/// anything.
template <bool Quotient, class T>
T divide(T a, T b) {
    if (b == 0) return Quotient ? static_cast<T>(-1) : a;
    if constexpr (std::is_signed_v<T>)
        if (b == -1) return Quotient ? static_cast<T>(0 - static_cast<std::make_unsigned_t<T>>(a)) : T{0};
    return static_cast<T>(Quotient ? a / b : a % b);
}

template <BinaryOp O, Element E>
auto integer_result(typename Values<E>::Code a, typename Values<E>::Code b) {
    using T = typename Values<E>::Number;
    const T x = Values<E>::decode(a), y = Values<E>::decode(b);
    const auto code = [](auto wrapped) { return Values<E>::encode(static_cast<T>(wrapped)); };
    constexpr auto last_bit = static_cast<typename Values<E>::Code>(bits_of(E) - 1);
    if constexpr (O == BinaryOp::add) return code(a + b);
    if constexpr (O == BinaryOp::sub) return code(a - b);
    if constexpr (O == BinaryOp::mul) return code(a * b);
    if constexpr (O == BinaryOp::div) return code(divide<true>(x, y));
    if constexpr (O == BinaryOp::mod) return code(divide<false>(x, y));
    if constexpr (O == BinaryOp::min) return x < y ? a : b;
    if constexpr (O == BinaryOp::max) return x < y ? b : a;
    if constexpr (O == BinaryOp::bit_and) return a & b;
    if constexpr (O == BinaryOp::bit_or) return a | b;
    if constexpr (O == BinaryOp::bit_xor) return a ^ b;
    if constexpr (O == BinaryOp::shl) return code(a << (b & last_bit));
    if constexpr (O == BinaryOp::shr) return code(x >> (b & last_bit));
}

template <BinaryOp O, Element E>
void loop(void* out, const void* const* in, std::size_t n) {
    using Code = typename Values<E>::Code;
    const Code* a = static_cast<const Code*>(in[0]);
    const Code* b = static_cast<const Code*>(in[1]);
    if constexpr (is_comparison(O)) {
        auto* __restrict to = static_cast<std::uint32_t*>(out);
        for (std::size_t i = 0; i < n; ++i) to[i] = compare<O>(Values<E>::decode(a[i]), Values<E>::decode(b[i]));
    } else {
        auto* __restrict to = static_cast<Code*>(out);
        for (std::size_t i = 0; i < n; ++i) {
            if constexpr (is_float(E)) {
                to[i] = float_result<O, E>(a[i], b[i]);
            } else {
                to[i] = integer_result<O, E>(a[i], b[i]);
            }
        }
    }
}

constexpr bool has_meaning(BinaryOp op, Element e) {
    if (packed_elements_of(e) > 1) return false;
    if (op == BinaryOp::div_bounded) return e == Element::f32;
    if (op == BinaryOp::max_magnitude) return e == Element::f16 || e == Element::bf16;
    if (op == BinaryOp::min_nan || op == BinaryOp::max_nan)
        return e == Element::f16 || e == Element::bf16 || e == Element::f32;
    if (is_comparison(op)) return true;
    const bool bitwise = op == BinaryOp::bit_and || op == BinaryOp::bit_or || op == BinaryOp::bit_xor;
    if (e == Element::boolean) return bitwise;
    if (e == Element::ue8m0) return false;
    return is_integer(e) || op <= BinaryOp::div || op == BinaryOp::min || op == BinaryOp::max;
}

template <BinaryOp O>
LaneFunction for_operation(Element type) {
    return for_element(type, []<Element E>() -> LaneFunction {
        if constexpr (has_meaning(O, E)) {
            return &loop<O, E>;
        } else {
            return nullptr;
        }
    });
}

}  // namespace

LaneFunction binary_function(BinaryOp op, Element type) {
    switch (op) {
        case BinaryOp::add: return for_operation<BinaryOp::add>(type);
        case BinaryOp::sub: return for_operation<BinaryOp::sub>(type);
        case BinaryOp::mul: return for_operation<BinaryOp::mul>(type);
        case BinaryOp::div: return for_operation<BinaryOp::div>(type);
        case BinaryOp::div_bounded: return for_operation<BinaryOp::div_bounded>(type);
        case BinaryOp::mod: return for_operation<BinaryOp::mod>(type);
        case BinaryOp::min: return for_operation<BinaryOp::min>(type);
        case BinaryOp::max: return for_operation<BinaryOp::max>(type);
        case BinaryOp::max_magnitude: return for_operation<BinaryOp::max_magnitude>(type);
        case BinaryOp::min_nan: return for_operation<BinaryOp::min_nan>(type);
        case BinaryOp::max_nan: return for_operation<BinaryOp::max_nan>(type);
        case BinaryOp::bit_and: return for_operation<BinaryOp::bit_and>(type);
        case BinaryOp::bit_or: return for_operation<BinaryOp::bit_or>(type);
        case BinaryOp::bit_xor: return for_operation<BinaryOp::bit_xor>(type);
        case BinaryOp::shl: return for_operation<BinaryOp::shl>(type);
        case BinaryOp::shr: return for_operation<BinaryOp::shr>(type);
        case BinaryOp::eq: return for_operation<BinaryOp::eq>(type);
        case BinaryOp::ne: return for_operation<BinaryOp::ne>(type);
        case BinaryOp::lt: return for_operation<BinaryOp::lt>(type);
        case BinaryOp::le: return for_operation<BinaryOp::le>(type);
        case BinaryOp::gt: return for_operation<BinaryOp::gt>(type);
        case BinaryOp::ge: return for_operation<BinaryOp::ge>(type);
    }
    return nullptr;
}

}  // namespace tessera::host
