#include "dsl/host/mma.hpp"

#include "dsl/base/error.hpp"
#include "dsl/host/lane_values.hpp"
#include "dsl/ir/tensor_core.hpp"

namespace tessera::host {

namespace {

using Code = std::uint32_t;

template <Element T>
void one_warp(void* const* out, const void* const* in, std::size_t first) {
    constexpr int pack = 32 / bits_of(T), depth = 8 * pack;
    double a[ir::mma_rows][depth], b[ir::mma_columns][depth];
    const auto code = [&](int operand, int lane) {
        return static_cast<const Code*>(in[operand])[first + static_cast<std::size_t>(lane)];
    };
    constexpr Code looked_at = T == tf32 ? 0xFFFFE000u : 0xFFFFFFFFu;  // low bits of a TF32 word count for nothing
    const auto element = [&](int operand, int lane) {
        return double{Values<T>::decode(code(operand, lane) & looked_at)};
    };
    for (int lane = 0; lane < 32; ++lane) {
        const int g = lane / 4, t = lane % 4;
        for (int word = 0; word < 4; ++word)
            for (int e = 0; e < pack; ++e)
                a[g + 8 * (word % 2)][(t + 4 * (word / 2)) * pack + e] = element(4 + word * pack + e, lane);
        for (int word = 0; word < 2; ++word)
            for (int e = 0; e < pack; ++e) b[g][(t + 4 * word) * pack + e] = element(4 + (4 + word) * pack + e, lane);
    }
    for (int lane = 0; lane < 32; ++lane)
        for (int i = 0; i < 4; ++i) {
            const double* row = a[lane / 4 + 8 * (i / 2)];
            const double* column = b[2 * (lane % 4) + i % 2];
            double sum = double{Values<f32>::decode(code(i, lane))};
            for (int k = 0; k < depth; ++k) sum += row[k] * column[k];
            static_cast<Code*>(out[i])[first + static_cast<std::size_t>(lane)] =
                Values<f32>::encode(static_cast<float>(sum));
        }
}

template <Element T>
void each_warp(void* const* out, const void* const* in, std::size_t threads) {
    for (std::size_t first = 0; first < threads; first += 32) one_warp<T>(out, in, first);
}

}  // namespace

void multiply_and_add(Element type, void* const* out, const void* const* in, std::size_t threads) {
    switch (type) {
        case Element::tf32: return each_warp<Element::tf32>(out, in, threads);
        case Element::bf16: return each_warp<Element::bf16>(out, in, threads);
        case Element::f16: return each_warp<Element::f16>(out, in, threads);
        case Element::e4m3: return each_warp<Element::e4m3>(out, in, threads);
        default: throw InternalError("the host executor has no product of this type");
    }
}

}  // namespace tessera::host
