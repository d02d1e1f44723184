#pragma once

#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <iterator>

namespace tessera::test {

/// SplitMix64: the same numbers on every machine and with every standard library.
class Random {
public:
    /// The state of a seed is mixed: its neighbours would else give the same numbers, one further on.
    explicit Random(std::uint64_t seed) : state_(mixed(mixed(seed + 0x1234567))) {}

    std::uint64_t next() { return mixed(state_ += 0x9E3779B97F4A7C15u); }
    /// Uniform in [low, high].
    std::int64_t between(std::int64_t low, std::int64_t high) {
        return low + static_cast<std::int64_t>(next() % static_cast<std::uint64_t>(high - low + 1));
    }
    bool one_in(int n) { return between(1, n) == 1; }
    /// Uniform in [0, 1).
    double unit() { return static_cast<double>(next() >> 11) * 0x1p-53; }
    /// Between low and high (≥ 1), the logarithm uniform.
    std::int64_t log_uniform(std::int64_t low, std::int64_t high) {
        const double a = std::log(static_cast<double>(low)), b = std::log(static_cast<double>(high) + 0.999);
        return static_cast<std::int64_t>(std::exp(a + (b - a) * unit()));
    }
    template <class T>
    T pick(std::initializer_list<T> choices) {
        return *(choices.begin() + between(0, static_cast<std::int64_t>(choices.size()) - 1));
    }
    template <class Container>
    const auto& pick_from(const Container& c) {
        return *std::next(std::begin(c), static_cast<std::ptrdiff_t>(next() % std::size(c)));
    }

private:
    static std::uint64_t mixed(std::uint64_t z) {
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
        z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
        return z ^ (z >> 31);
    }
    std::uint64_t state_;
};

}  // namespace tessera::test
