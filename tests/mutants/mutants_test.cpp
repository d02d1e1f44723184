#include <algorithm>
#include <catch2/catch.hpp>
#include <exception>
#include <fmt/core.h>
#include <functional>
#include <tessera/dsl.hpp>
#include <tessera/quant.hpp>
#include <tessera/transpose.hpp>

#include "dsl/lower/lower.hpp"
#include "runtime/engine.hpp"
#include "tests/mutants/mutate.hpp"
#include "tests/mutants/uniform.hpp"
#include "tests/support/inputs.hpp"
#include "tests/support/kernels/guarded.hpp"
#include "tests/support/reference/quantize.hpp"
#include "tests/support/reference/transpose.hpp"

// A lowered kernel that lacks any one of its barriers, masks or edges must not pass: either the host executor's checks
// stop it, or its result is wrong.

namespace {

using namespace tessera;
using namespace tessera::test;
using Bytes = std::vector<std::uint8_t>;

const Device host = Device::host();

/// Runs a kernel on all of a subject's shapes; true if every byte is right. Throws what the launch throws.
using Trial = std::function<bool(const CompiledKernel&)>;

bool passes(const ir::Program& lowered, const Trial& trial) {
    try {
        return trial(Engine::of(host).compile_lowered(std::make_shared<const ir::Program>(lowered)));
    } catch (const std::exception&) {
        return false;
    }
}

/// True if the fault shows in no launch, because what was taken away never said no there.
bool changes_nothing(const Mutant& m, const Masks& masks) {
    const auto says_yes = [&](ir::Ref mask) {
        if (masks.picks_a_copy(mask) || masks.always(mask, true)) return true;
        const auto* both = mask->as<ir::Binary>();
        if (both == nullptr || both->op != ir::BinaryOp::bit_and) return false;
        const auto part = [&](ir::Ref p) { return masks.picks_a_copy(p) || masks.always(p, true); };
        return part(both->a) && part(both->b);
    };
    const auto says_no = [&](ir::Ref mask) { return masks.always(mask, false); };
    const bool idle = !m.lost.empty() && std::all_of(m.lost.begin(), m.lost.end(), says_yes);
    return idle || std::any_of(m.unneeded.begin(), m.unneeded.end(), says_no);
}

/// `launches`: the numbers of the trial's launches. At least `barriers` barriers and `safeguards` faults in all must
/// make a difference.
void check_mutants(const Program& recorded, const std::vector<Numbers>& launches, const Trial& trial,
                   std::size_t barriers, std::size_t safeguards) {
    const ir::Program lowered = lower::lower(recorded.ir(), host.target());
    REQUIRE(passes(lowered, trial));
    const Masks masks(lowered, launches);
    std::size_t without_barrier = 0, caught = 0;
    for (const Mutant& m : mutants_of(lowered)) {
        const bool survives = passes(m.program, trial);
        if (m.fault.find("barrier") != std::string::npos) ++without_barrier;
        if (!survives) ++caught;
        INFO(m.fault);
        CHECK((!survives || changes_nothing(m, masks)));
    }
    CHECK(without_barrier >= barriers);
    CHECK(caught >= safeguards);
}

bool transposes(const CompiledKernel& kernel, Element type, const Shape& extents, std::int64_t pitch) {
    const std::int64_t b = extents[0], m = extents[1], n = extents[2], bytes = bits_of(type) / 8;
    const Bytes x = random_bytes(static_cast<std::size_t>(b * m * pitch * bytes), 77);
    const Stream stream = host.stream();
    const Guarded in(stream, x), out(stream, b * m * n * bytes);
    kernel.launch(stream, {in.view(type, extents, {m * pitch, pitch, 1}), out.view(type, {b, n, m}, {m * n, m, 1})});
    return out.read(stream) ==
           reference::batched_transpose(x.data(), static_cast<int>(bytes), b, m, n, pitch, m * pitch);
}

std::int64_t pitch_of(std::int64_t hidden) { return (hidden + 15) / 16 * 16 + 16; }

Numbers cast_numbers(std::int64_t tokens, std::int64_t hidden, const reference::QuantizeRule& rule) {
    const std::int64_t run = ((tokens + rule.block_rows - 1) / rule.block_rows + 3) / 4 * 4;
    return {{"tokens", tokens}, {"x_pitch", pitch_of(hidden)}, {"sf_pitch", run}};
}

bool casts(const CompiledKernel& kernel, Element type, std::int64_t tokens, std::int64_t hidden,
           const reference::QuantizeRule& rule) {
    const std::int64_t pitch = pitch_of(hidden);
    const Bytes x = hard_values(type, tokens * pitch, 5);
    const reference::Quantized expected = reference::quantize({x.data(), type == bf16, tokens, hidden, pitch}, rule);
    const Stream stream = host.stream();
    const auto words = static_cast<std::int64_t>(expected.scales.size());
    const Guarded in(stream, x), codes(stream, tokens * hidden), scales(stream, words * 4);
    const std::int64_t m = (tokens + rule.block_rows - 1) / rule.block_rows, run = (m + 3) / 4 * 4;
    const std::int64_t k = (hidden + rule.block_columns - 1) / rule.block_columns;
    const TensorView in_view = in.view(type, {tokens, hidden}, {pitch, 1});
    const TensorView code_view = codes.view(e4m3, {tokens, hidden}, {hidden, 1});
    const TensorView bytes = scales.view(ue8m0, {words * 4}, {1});
    switch (rule.scales) {
        case reference::Scales::row_major:
            kernel.launch(stream, {in_view, code_view, scales.view(f32, {m, k}, {k, 1})});
            break;
        case reference::Scales::column_major:
            kernel.launch(stream, {in_view, code_view, scales.view(f32, {run, k}, {1, run})});
            break;
        default: kernel.launch(stream, {in_view, code_view, bytes}, {Scalar("sf_pitch", run)});
    }
    const Bytes got = scales.read(stream);
    const auto* want = reinterpret_cast<const std::uint8_t*>(expected.scales.data());
    return codes.read(stream) == expected.codes && std::equal(got.begin(), got.end(), want);
}

quant::ScaleLayout layout_of(reference::Scales scales) { return static_cast<quant::ScaleLayout>(scales); }

}  // namespace

TEST_CASE("a transpose without any one safeguard fails", "[mutants]") {
    for (const int bytes : {1, 2, 4}) {
        const Element type = bytes == 1 ? u8 : bytes == 2 ? u16 : u32;
        for (const bool aligned : {true, false}) {
            INFO(bytes << " bytes, " << (aligned ? "aligned" : "narrow"));
            // Both sides stick out of the last tile; one shape is smaller than a tile.
            const std::int64_t step = aligned ? 16 : 1;
            const auto numbers = [](std::int64_t b, std::int64_t m, std::int64_t n, std::int64_t pitch) {
                return Numbers{{"batches", b}, {"rows", m}, {"cols", n}, {"x_pitch", pitch}, {"x_batch", m * pitch}};
            };
            check_mutants(
                transpose::batched_transpose_program(bytes, aligned),
                {numbers(2, 128 + step, 192 + 5 * step, 192 + 8 * step), numbers(1, 3 * step, 2 * step, 2 * step)},
                [&](const CompiledKernel& kernel) {
                    return transposes(kernel, type, {2, 128 + step, 192 + 5 * step}, 192 + 8 * step) &&
                           transposes(kernel, type, {1, 3 * step, 2 * step}, 2 * step);
                },
                1, 7);
        }
    }
}

TEST_CASE("a pipeline without any one safeguard fails", "[mutants]") {
    constexpr std::int64_t rows = 4, cols = 32, items = 7;
    for (const Copies engine : {Copies::vectors, Copies::bulk, Copies::tensor}) {
        INFO("engine " << static_cast<int>(engine));
        const Program sums = record("sums", [=](Kernel& k) {
            const Dim n = k.dim("n");
            const auto x = k.input<f32>("x", {n, rows, cols});
            const auto y = k.output<f32>("y", {cols, rows}, {.align = 4});
            k.threads(64);
            k.grid(1);
            const auto tile = k.shared<f32>("tile", {3, rows, cols});
            auto sum = k.variable(full({cols, rows}, Value<f32, 0>(0.0f)));
            // Two turns more than there are items: copies outside of x.
            k.pipelined(
                n + 2, {.stages = 3, .engine = engine},
                [&](Index i, Index slot) { copy_async(tile[slot].whole(), x[i].window({rows, cols}, {0, 0})); },
                [&](Index i, Index slot) {
                    k.when(i < n, [&] { sum = sum.get() + load(tile[slot].whole()).permute<1, 0>(); });
                });
            store(y.window({cols, rows}, {0, 0}), sum.get());
        });
        std::vector<float> x(items * rows * cols), expected(rows * cols, 0.0f);
        for (std::size_t i = 0; i < x.size(); ++i) {
            x[i] = static_cast<float>(i * 37 % 101);
            const std::size_t in = i % (rows * cols);
            expected[in % cols * rows + in / cols] += x[i];
        }
        const auto bytes = [](const std::vector<float>& v) {
            const auto* first = reinterpret_cast<const std::uint8_t*>(v.data());
            return Bytes(first, first + v.size() * sizeof(float));
        };
        check_mutants(
            sums, {{{"n", items}}},
            [&](const CompiledKernel& kernel) {
                const Stream stream = host.stream();
                const Guarded in(stream, bytes(x)), out(stream, rows * cols * 4);
                kernel.launch(stream, {in.view(f32, {items, rows, cols}, {rows * cols, cols, 1}),
                                       out.view(f32, {cols, rows}, {rows, 1})});
                return out.read(stream) == bytes(expected);
            },
            engine == Copies::vectors ? 0 : 1, engine == Copies::bulk ? 6 : 5);
    }
}

TEST_CASE("a cast of long rows without any one safeguard fails", "[mutants]") {
    constexpr std::int64_t hidden = 9000;  // two steps, the second ragged
    for (const reference::Scales scales : {reference::Scales::row_major, reference::Scales::packed_ue8m0})
        for (const Element type : {bf16, f32}) {
            INFO(name_of(type) << ", scale layout " << static_cast<int>(scales));
            quant::CastOptions options;
            options.num_per_channels = hidden;
            options.scale_layout = layout_of(scales);
            const reference::QuantizeRule rule{1, hidden, scales, scales == reference::Scales::packed_ue8m0};
            options.round_sf = rule.round;
            check_mutants(
                quant::per_token_cast_program(type, hidden, options), {cast_numbers(3, hidden, rule)},
                [&](const CompiledKernel& kernel) { return casts(kernel, type, 3, hidden, rule); }, 2, 6);
        }
}

TEST_CASE("a cast of blocks without any one safeguard fails", "[mutants]") {
    constexpr std::int64_t hidden = 328;
    using reference::Scales;
    for (const Scales scales : {Scales::row_major, Scales::column_major, Scales::packed_ue8m0})
        for (const std::int64_t side : {32, 128}) {
            INFO("blocks of " << side << ", scale layout " << static_cast<int>(scales));
            quant::BlockCastOptions options;
            options.block_rows = options.block_columns = side;
            options.scale_layout = layout_of(scales);
            const reference::QuantizeRule rule{side, side, scales, scales == Scales::packed_ue8m0};
            options.round_sf = rule.round;
            check_mutants(
                quant::per_block_cast_program(bf16, hidden, options), {cast_numbers(2 * side + 3, hidden, rule)},
                [&](const CompiledKernel& kernel) { return casts(kernel, bf16, 2 * side + 3, hidden, rule); }, 1, 6);
        }
}
