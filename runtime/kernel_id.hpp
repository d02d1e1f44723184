#pragma once

#include <bit>
#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <type_traits>

namespace tessera {

namespace detail {
inline constexpr std::uint64_t id_factor = 0x9E3779B97F4A7C15u;

/// A polynomial in the characters.
constexpr std::uint64_t digest_of_name(const char* text) {
    std::uint64_t digest = 0;
    for (const char* at = text; *at != '\0'; ++at) digest = digest * id_factor + static_cast<unsigned char>(*at);
    return digest;
}
}  // namespace detail

/// The name of a recording function. A literal is worked out by the compiler, so that a launch looks at no character.
struct KernelName {
    const char* text;
    std::uint64_t digest;
    bool literal;

    consteval KernelName(const char* name) : text(name), digest(detail::digest_of_name(name)), literal(true) {}
    /// A name that is put together at run time; it must outlive the look-up.
    static constexpr KernelName of(const char* name) { return KernelName(name, false); }

private:
    constexpr KernelName(const char* name, bool is_literal)
        : text(name), digest(detail::digest_of_name(name)), literal(is_literal) {}
};

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
/// Two recordings that may differ must differ in their ids.
struct KernelId {
    static constexpr int most_options = 12;

    std::uint64_t hash;
    const char* name;
    std::uint32_t count;
    bool literal;                         // the name is one, and lies where it is
    std::uint64_t options[most_options];  // the first `count`

    /// Errors: UsageError for more than 12 options.
    KernelId(KernelName kernel, std::initializer_list<KernelOption> given)
        : name(kernel.text), count(static_cast<std::uint32_t>(given.size())), literal(kernel.literal) {
        if (given.size() > most_options) [[unlikely]]
            refuse(name, given.size());
        // A polynomial in the values, whose terms do not wait for each other.
        std::uint64_t sum = kernel.digest + count, power = detail::id_factor;
        std::uint64_t* into = options;
        for (const KernelOption& option : given) {
            *into++ = option.bits;
            sum += option.bits * power;
            power *= detail::id_factor;
        }
        // What is in its high bits is brought down.
        sum = (sum ^ (sum >> 32)) * detail::id_factor;
        hash = sum ^ (sum >> 32);
    }

private:
    [[noreturn]] static void refuse(const char* name, std::size_t options);
};

}  // namespace tessera
