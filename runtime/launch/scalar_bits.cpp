#include "runtime/launch/scalar_bits.hpp"

#include <bit>
#include <limits>

#include "dsl/base/convert.hpp"

namespace tessera::runtime {

namespace {

bool fits(Element type, const Scalar& s) {
    const int width = bits_of(type);
    const bool above_signed = s.is_unsigned && s.integer < 0;
    if (type == boolean) return s.integer == 0 || s.integer == 1;
    if (is_unsigned_integer(type))
        return (s.is_unsigned || s.integer >= 0) &&
               (width == 64 || static_cast<std::uint64_t>(s.integer) >> width == 0);
    if (above_signed) return false;
    const std::int64_t most = std::numeric_limits<std::int64_t>::max() >> (64 - width);
    return s.integer <= most && s.integer >= -most - 1;
}

}  // namespace

bool scalar_bits(Element type, const Scalar& s, std::uint64_t& bits) {
    if (is_float(type)) {
        const double value = s.is_real       ? s.real
                             : s.is_unsigned ? static_cast<double>(static_cast<std::uint64_t>(s.integer))
                                             : static_cast<double>(s.integer);
        bits = type == f64 ? std::bit_cast<std::uint64_t>(value) : encode_float(type, static_cast<float>(value));
        return true;
    }
    if (s.is_real || !fits(type, s)) return false;
    const int width = bits_of(type);
    bits = static_cast<std::uint64_t>(s.integer);
    if (width < 64) bits &= (std::uint64_t{1} << width) - 1;
    return true;
}

}  // namespace tessera::runtime
