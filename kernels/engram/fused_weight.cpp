#include "dsl/front/kernel.hpp"
#include "kernels/engram.hpp"
#include "kernels/engram/check.hpp"
#include "runtime/compiled_kernel.hpp"
#include "runtime/engine.hpp"

namespace tessera::engram {

namespace {

constexpr const char* name = "engram_fused_weight";

void check_inputs(const Stream& stream, const TensorView& hidden, const TensorView& embed) {
    check_weight(name, "weight_hidden", stream, hidden);
    check_dense(name, "weight_embed", stream, embed, bf16, hidden.extents);
}

void launch(const Stream& stream, const TensorView& hidden, const TensorView& embed, const TensorView& out) {
    const bool aligned = hidden.count() % 8 == 0 && at_16_bytes({&hidden, &embed, &out});
    Engine::of(stream)
        .kernel(stream, KernelId(name, {aligned}), [&] { return fused_weight_program(aligned); })
        .launch(stream, {flat(hidden), flat(embed), flat(out)});
}

}  // namespace

Program fused_weight_program(bool aligned) {
    return record(name, [=](Kernel& k) {
        constexpr std::int64_t each = 512;
        const Dim count = k.dim("count", multiple_of(aligned ? 8 : 1));
        const auto hidden = k.input<bf16>("weight_hidden", {count}, {.align = aligned ? 16 : 2});
        const auto embed = k.input<bf16>("weight_embed", {count}, {.align = aligned ? 16 : 2});
        const auto out = k.output<f32>("weight_fused", {count}, {.align = aligned ? 16 : 4});
        k.threads(128);
        const auto [m] = k.grid(ceil_div(count, each));
        const auto product = cast<f32>(load(hidden.block({each}, {m}))) * cast<f32>(load(embed.block({each}, {m})));
        store(out.block({each}, {m}), product);
    });
}

void fused_weight(const Stream& stream, const TensorView& weight_hidden, const TensorView& weight_embed,
                  const TensorView& out) {
    check_inputs(stream, weight_hidden, weight_embed);
    check_dense(name, "out", stream, out, f32, weight_hidden.extents);
    launch(stream, weight_hidden, weight_embed, out);
}

Tensor fused_weight(const Stream& stream, const TensorView& weight_hidden, const TensorView& weight_embed) {
    check_inputs(stream, weight_hidden, weight_embed);
    Tensor out = Tensor::empty(stream, f32, weight_hidden.extents);
    launch(stream, weight_hidden, weight_embed, out);
    return out;
}

}  // namespace tessera::engram
