#include <bit>
#include <catch2/catch.hpp>
#include <thread>
#include <vector>

#include "dsl/host/executor.hpp"
#include "dsl/lower/lower.hpp"
#include "kernels/quant/scale.hpp"

// Unrounded scales against the processor's division, bit for bit.

using namespace tessera;

namespace {

constexpr std::int64_t chunk = std::int64_t{1} << 20;
constexpr std::uint32_t infinity = 0x7F800000;

Program scales(float largest) {
    return record("scales", [=](Kernel& k) {
        const Dim n = k.dim("n");
        const auto c = k.input<f32>("c", {n});
        const auto sf = k.output<f32>("sf", {n}), inv = k.output<f32>("inv", {n});
        k.threads(128);
        const auto [m] = k.grid(ceil_div(n, 2048));
        const auto s = quant::unrounded_scales(load(c.block({2048}, {m}), 1.0f), largest);
        store(sf.block({2048}, {m}), s.sf);
        store(inv.block({2048}, {m}), s.inv);
    });
}

/// Patterns from `first` to infinity by `step`, and infinity. Number of scales whose bits are not those of a division.
std::int64_t wrong_scales(float largest, float first, std::uint32_t step) {
    const auto lowered = std::make_shared<const ir::Program>(lower::lower(scales(largest).ir(), Target::h200()));
    const host::Executable kernel(lowered);
    std::vector<float> c(static_cast<std::size_t>(chunk)), sf(c.size()), inv(c.size());
    std::int64_t wrong = 0;
    std::uint64_t bits = std::bit_cast<std::uint32_t>(first);
    for (bool more = true; more;) {
        std::size_t n = 0;
        for (; n < c.size() && bits < infinity; ++n, bits += step)
            c[n] = std::bit_cast<float>(static_cast<std::uint32_t>(bits));
        more = n == c.size();
        if (!more) c[n++] = std::bit_cast<float>(infinity);
        kernel.run({{c.data(), sf.data(), inv.data()}, {n}}, {.check = step > 1});
        for (std::size_t i = 0; i < n; ++i) {
            const float s = c[i] / largest, back = largest / c[i];
            wrong += std::bit_cast<std::uint32_t>(s) != std::bit_cast<std::uint32_t>(sf[i]) ||
                     std::bit_cast<std::uint32_t>(back) != std::bit_cast<std::uint32_t>(inv[i]);
        }
    }
    return wrong;
}

}  // namespace

TEST_CASE("unrounded scales have the bits of divisions, over a sample of all maxima") {
    CHECK(wrong_scales(448.0f, 1e-4f, 1009) == 0);
    CHECK(wrong_scales(448.0f, 0x1p-27f, 4093) == 0);
    CHECK(wrong_scales(6.0f, 0x1p-27f, 4093) == 0);
    CHECK(wrong_scales(4.0f, 0x1p-27f, 4093) == 0);
}

TEST_CASE("unrounded scales have the bits of divisions, over all maxima", "[.][long]") {
    CHECK(wrong_scales(448.0f, 1e-4f, 1) == 0);
}
