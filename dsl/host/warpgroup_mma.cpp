#include "dsl/host/warpgroup_mma.hpp"

#include <cstring>
#include <vector>

#include "dsl/base/error.hpp"
#include "dsl/host/lane_values.hpp"
#include "dsl/ir/tensor_core.hpp"

namespace tessera::host {

namespace {

using Code = std::uint32_t;

/// rows × depth, row-major.
using Matrix = std::vector<double>;

template <Element T>
struct Instruction {
    static constexpr int pack = 32 / bits_of(T), depth = 8 * pack, lanes = ir::warpgroup_threads;

    static double value(Code code) {
        constexpr Code looked_at = T == tf32 ? 0xFFFFE000u : 0xFFFFFFFFu;  // low bits of a TF32 word count for nothing
        return double{Values<T>::decode(code & looked_at)};
    }

    static Matrix shared(const SharedMatrix& m, int rows) {
        constexpr std::size_t bytes = bits_of(T) / 8;
        const std::int64_t columns = m.tile->shape.back();
        Matrix result;
        for (int r = 0; r < rows; ++r)
            for (int k = 0; k < depth; ++k) {
                const std::int64_t at = m.tile->swizzle(m.offset + r * columns + k);
                Code code = 0;
                std::memcpy(&code, m.base + static_cast<std::size_t>(at) * bytes, bytes);
                result.push_back(value(code));
            }
        return result;
    }

    static Matrix registers(const void* const* in, std::size_t first) {
        Matrix result(ir::warpgroup_rows * depth);
        for (int lane = 0; lane < lanes; ++lane)
            for (int word = 0; word < 4; ++word)
                for (int e = 0; e < pack; ++e) {
                    const int row = row_of(lane, word % 2), k = (lane % 4 + 4 * (word / 2)) * pack + e;
                    const auto* codes = static_cast<const Code*>(in[word * pack + e]);
                    result[static_cast<std::size_t>(row * depth + k)] =
                        value(codes[first + static_cast<std::size_t>(lane)]);
                }
        return result;
    }

    static int row_of(int lane, int below) { return lane / 32 * 16 + lane % 32 / 4 + 8 * below; }

    static void run(int columns, void* const* out, const void* const* in, std::size_t first, const Matrix& a,
                    const Matrix& b) {
        for (int lane = 0; lane < lanes; ++lane)
            for (int word = 0; word < columns / 2; ++word) {
                const std::size_t thread = first + static_cast<std::size_t>(lane);
                const int row = row_of(lane, word % 4 / 2), column = word / 4 * 8 + lane % 4 * 2 + word % 2;
                const double* const left = &a[static_cast<std::size_t>(row * depth)];
                const double* const right = &b[static_cast<std::size_t>(column * depth)];
                double sum = double{Values<f32>::decode(static_cast<const Code*>(in[word])[thread])};
                for (int k = 0; k < depth; ++k) sum += left[k] * right[k];
                static_cast<Code*>(out[word])[thread] = Values<f32>::encode(static_cast<float>(sum));
            }
    }
};

template <Element T>
void multiply(int columns, void* const* out, const void* const* in, std::size_t first, const SharedMatrix* a,
              const SharedMatrix& b) {
    using I = Instruction<T>;
    const Matrix left = a ? I::shared(*a, ir::warpgroup_rows) : I::registers(in + columns / 2, first);
    I::run(columns, out, in, first, left, I::shared(b, columns));
}

}  // namespace

void multiply_and_add(Element type, int columns, void* const* out, const void* const* in, std::size_t first,
                      const SharedMatrix* a, const SharedMatrix& b) {
    switch (type) {
        case Element::tf32: return multiply<Element::tf32>(columns, out, in, first, a, b);
        case Element::bf16: return multiply<Element::bf16>(columns, out, in, first, a, b);
        case Element::f16: return multiply<Element::f16>(columns, out, in, first, a, b);
        case Element::e4m3: return multiply<Element::e4m3>(columns, out, in, first, a, b);
        default: throw InternalError("the host executor has no product of this type");
    }
}

}  // namespace tessera::host
