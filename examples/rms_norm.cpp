// RMSNorm as a kernel of one's own: y = x / √(mean(x²) + eps) · w, one row a block.

#include <cstdio>
#include <exception>
#include <tessera/dsl.hpp>
#include <tessera/runtime.hpp>
#include <vector>

#include "usage.hpp"

using namespace tessera;

Program rms_norm(std::int64_t hidden) {
    return record("rms_norm", [=](Kernel& k) {
        const Dim tokens = k.dim("tokens");
        const auto x = k.input<bf16>("x", {tokens, hidden});
        const auto w = k.input<f32>("w", {hidden});
        const auto y = k.output<bf16>("y", {tokens, hidden});
        const auto eps = k.scalar<f32>("eps");
        const auto [row] = k.grid(tokens);

        const std::int64_t tile = align_up(hidden, 1024);  // what lies past the row reads as 0
        const auto v = cast<f32>(load(x.block({1, tile}, {row, 0})));
        const auto mean = reduce_sum(v * v, axis<1>) / static_cast<float>(hidden);
        const auto scaled = v * rsqrt(mean + eps) * load(w.block({tile}, {0})).unsqueeze(axis<0>);
        store(y.block({1, tile}, {row, 0}), cast<bf16>(scaled));
    });
}

int main(int argc, char** argv) try {
    if (const auto code = answer(argc, argv,
                                 "rms_norm [--cuda]   (checks a kernel, on the GPU or else on the host; --cuda prints "
                                 "its text for an H200)",
                                 {"--cuda"}))
        return *code;
    if (argc > 1) {  // the text that is compiled for an H200
        std::fputs(Engine::of(Device::host()).compile(rms_norm(4096)).cuda_text().c_str(), stdout);
        return 0;
    }
    const Device device = Device::best();
    const Stream stream = device.stream();
    const std::int64_t tokens = 64, hidden = 4096;
    const Tensor x = Tensor::from_host(stream, bf16, {tokens, hidden},
                                       std::vector<std::uint16_t>(tokens * hidden, 0x4040).data());  // 3.0
    const Tensor w = Tensor::from_host(stream, f32, {hidden}, std::vector<float>(hidden, 0.5f).data());
    const Tensor y = Tensor::empty(stream, bf16, {tokens, hidden});

    Engine::of(device).compile(rms_norm(hidden)).launch(stream, {x, w, y}, {Scalar("eps", 1e-6f)});

    const Tensor result = y.to_host(stream);
    const auto* codes = result.as<std::uint16_t>();
    for (std::int64_t i = 0; i < tokens * hidden; ++i)
        if (codes[i] != 0x3F00) {  // 0.5: every row has mean square 9
            std::printf("rms_norm: element %lld is 0x%04X, not 0x3F00\n", static_cast<long long>(i), codes[i]);
            return 1;
        }
    std::printf("rms_norm: %lld rows of %lld on %s: every element is 0.5\n", static_cast<long long>(tokens),
                static_cast<long long>(hidden), device.name().c_str());
} catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
}
