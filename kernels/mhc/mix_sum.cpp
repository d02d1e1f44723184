#include "kernels/mhc/mix_rows.hpp"
#include "runtime/compiled_kernel.hpp"
#include "runtime/engine.hpp"

namespace tessera::mhc {

namespace {
constexpr const char* function = "mhc_sum_mix_parts";
}

Program sum_mix_parts_program(std::int64_t bases, std::int64_t scales, const Accumulate& accumulate) {
    return record(function, [=](Kernel& k) {
        constexpr std::int64_t most_parts = mix_parts(1 << 30), columns = 8;
        const Dim count = k.dim("blocks");
        const auto parts = k.input<f32>("parts", {count, bases + scales}, {.align = 4});
        const auto base = k.inout<f32>("base", {bases}, {.align = 4});
        const auto scale = k.inout<f32>("scale", {scales}, {.align = 4});
        k.threads(256);
        const auto [n] = k.grid(ceil_div(bases + scales, columns));
        const auto sum = reduce_sum(load(parts.block({most_parts, columns}, {0, n})), axis<0>).squeeze(axis<0>);
        const auto at = n * columns + coordinates({columns}, axis<0>);
        const auto put = [&](const Global<f32, 1>& to, const Value<i64, 1>& place, bool adds) {
            const auto piece = to.window({columns}, {place});
            store(piece, adds ? load(piece) + sum : sum);
        };
        put(base, at, accumulate.base);
        put(scale, at - bases, accumulate.scale);
    });
}

void launch_mix_sum(const Stream& stream, const TensorView& parts, const TensorView& base, const TensorView& scale,
                    const Accumulate& accumulate) {
    const std::int64_t bases = base.extents[0], scales = parts.extents[1] - bases;
    Engine::of(stream)
        .kernel(stream, KernelId(function, {bases, scales, accumulate.base, accumulate.scale}),
                [&] { return sum_mix_parts_program(bases, scales, accumulate); })
        .launch(stream, {parts, base, scale});
}

}  // namespace tessera::mhc
