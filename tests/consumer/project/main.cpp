#include <cstdio>
#include <tessera/dsl.hpp>
#include <tessera/runtime.hpp>
#include <vector>

// A path as the library's own headers write it.
#include "dsl/base/error.hpp"

using namespace tessera;

Program twice() {
    return record("twice", [](Kernel& k) {
        const Dim n = k.dim("n");
        auto x = k.input<f32>("x", {n});
        auto y = k.output<f32>("y", {n});
        const auto [block] = k.grid(ceil_div(n, 128));
        store(y.block({128}, {block}), load(x.block({128}, {block})) * 2.0f);
    });
}

int main() {
    try {
        const Device device = Device::host();
        const std::vector<float> x{1, 2, 3, 4, 5};
        const Shape extents{std::int64_t(x.size())};
        const Tensor y = Tensor::zeros(device, f32, extents);
        Engine engine(device);
        engine.compile(twice()).launch(Stream::default_of(device),
                                       {Tensor::from_host(device, f32, extents, x.data()), y});
        std::printf("y =");
        for (std::size_t i = 0; i < x.size(); ++i) std::printf(" %g", static_cast<double>(y.as<float>()[i]));
        std::printf("\n");
    } catch (const Error& error) {
        std::fprintf(stderr, "%s\n", error.what());
        return 1;
    }
    return 0;
}
