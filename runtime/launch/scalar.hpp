#pragma once

#include <concepts>
#include <cstdint>

namespace tessera {

/// A named number given to one launch: Scalar("eps", 1e-6f). It takes the type that the kernel declared; what does not
/// fit into that type is a UsageError at the launch. `name` is not copied.
struct Scalar {
    const char* name;
    bool is_real;
    bool is_unsigned = false;  // `integer` holds the bits of an unsigned number
    double real = 0;
    std::int64_t integer = 0;

    Scalar(const char* n, std::floating_point auto value) : name(n), is_real(true), real(static_cast<double>(value)) {}
    template <std::integral T>
    Scalar(const char* n, T value)
        : name(n), is_real(false), is_unsigned(std::unsigned_integral<T>), integer(static_cast<std::int64_t>(value)) {}
};

}  // namespace tessera
