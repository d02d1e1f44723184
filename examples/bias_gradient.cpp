// The gradient of a bias, Σ over the tokens of grad[token, :], by two roles of warps: one copies rows ahead of time,
// the other adds them up with the registers that the first gives away.

#include <cstdio>
#include <exception>
#include <tessera/dsl.hpp>
#include <tessera/runtime.hpp>
#include <vector>

#include "usage.hpp"

using namespace tessera;

Program bias_gradient(std::int64_t hidden) {
    return record("bias_gradient", [=](Kernel& k) {
        constexpr std::int64_t columns = 2048, stages = 8;
        const Dim tokens = k.dim("tokens");
        const auto grad = k.input<bf16>("grad", {tokens, hidden});
        const auto bias = k.output<f32>("bias", {hidden});
        const auto [block] = k.grid(hidden / columns);

        const auto rows = k.shared<bf16>("rows", {stages, columns});
        const auto ring = k.ring({.stages = stages});
        k.roles(
            {.name = "copier", .warps = 4, .registers = 40},
            [&] {
                k.serial(tokens, [&](Index t) {
                    ring.fill([&](Index slot) { copy_async(rows[slot].whole(), grad[t].block({columns}, {block})); });
                });
            },
            {.name = "adder", .warps = 8, .registers = 232},
            [&] {
                auto sum = k.variable(full({columns}, Value<f32, 0>(0.0f)));
                k.serial(tokens, [&](Index) {
                    ring.use([&](Index slot) { sum = sum.get() + cast<f32>(load(rows[slot].whole())); });
                });
                store(bias.block({columns}, {block}), sum.get());
            });
    });
}

int main(int argc, char** argv) try {
    if (const auto code = answer(
            argc, argv,
            "bias_gradient   (checks the gradient of a bias, on the GPU or else on the host; takes no arguments)"))
        return *code;
    const Device device = Device::best();
    const Stream stream = device.stream();
    const std::int64_t tokens = 100, hidden = 8192;
    const Tensor grad = Tensor::from_host(stream, bf16, {tokens, hidden},
                                          std::vector<std::uint16_t>(tokens * hidden, 0x3E80).data());  // 0.25
    const Tensor bias = Tensor::empty(stream, f32, {hidden});

    Engine::of(device).compile(bias_gradient(hidden)).launch(stream, {grad, bias});

    const Tensor result = bias.to_host(stream);
    for (std::int64_t i = 0; i < hidden; ++i)
        if (result.as<float>()[i] != 25.0f) {
            std::printf("bias_gradient: element %lld is %g, not 25\n", static_cast<long long>(i),
                        static_cast<double>(result.as<float>()[i]));
            return 1;
        }
    std::printf("bias_gradient: %lld tokens of %lld on %s: every element is 25\n", static_cast<long long>(tokens),
                static_cast<long long>(hidden), device.name().c_str());
} catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
}
