#pragma once

#include <bit>
#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <type_traits>

namespace tessera {

/// One number that a recording depends on: an extent, a flag, an Element or another enum, a float (by its bits).
struct KernelOption {
    std::uint64_t bits;

    template <std::integral T>
    constexpr KernelOption(T value) : bits(static_cast<std::uint64_t>(value)) {}
    template <class T>
        requires std::is_enum_v<T>
    constexpr KernelOption(T value) : bits(static_cast<std::uint64_t>(value)) {}
    constexpr KernelOption(double value) : bits(std::bit_cast<std::uint64_t>(value)) {}
    constexpr KernelOption(float value) : KernelOption(static_cast<double>(value)) {}
};

/// What tells the specialisations of one recording function apart: its name and all its arguments, in a fixed order.
/// Two recordings that may differ must differ in their ids. `name` must outlive the look-up (a literal).
struct KernelId {
    static constexpr int most_options = 12;

    const char* name;
    std::uint32_t count = 0;
    std::uint64_t options[most_options] = {};
    std::uint64_t hash;

    /// Errors: UsageError for more than 12 options.
    KernelId(const char* name, std::initializer_list<KernelOption> options);
};

}  // namespace tessera
