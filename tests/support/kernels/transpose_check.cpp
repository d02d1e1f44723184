#include <exception>
#include <fmt/core.h>
#include <tessera/transpose.hpp>

#include "tests/support/inputs.hpp"
#include "tests/support/kernels/checks.hpp"
#include "tests/support/kernels/guarded.hpp"
#include "tests/support/reference/transpose.hpp"

namespace tessera::test {
namespace {

using Bytes = std::vector<std::uint8_t>;

std::string compare(const TransposeCase& c, const Bytes& got, const Bytes& expected) {
    if (got == expected) return "";
    const std::size_t bytes = bits_of(c.type) / 8;
    std::size_t i = 0;
    while (got[i] == expected[i]) ++i;
    const auto element = static_cast<std::int64_t>(i / bytes);
    return fmt::format("element [{}, {}, {}] of the result is wrong", element / (c.rows * c.columns),
                       element / c.rows % c.columns, element % c.rows);
}

}  // namespace

std::string check_batched_transpose(const Device& device, const TransposeCase& c) {
    const std::int64_t bytes = bits_of(c.type) / 8, batch_pitch = c.rows * c.pitch;
    const std::int64_t count = c.batch * c.rows * c.columns;
    const std::int64_t span = count == 0 ? 0 : (c.batch - 1) * batch_pitch + (c.rows - 1) * c.pitch + c.columns;
    const Bytes values = random_bytes(static_cast<std::size_t>(span * bytes), c.seed);
    const Bytes expected = reference::batched_transpose(values.data(), static_cast<int>(bytes), c.batch, c.rows,
                                                        c.columns, c.pitch, batch_pitch);
    try {
        const Stream stream = device.stream();
        const Guarded x(stream, values, c.shift * bytes);
        const Guarded out(stream, count * bytes);
        const TensorView in = x.view(c.type, {c.batch, c.rows, c.columns}, {batch_pitch, c.pitch, 1});
        const Shape extents = {c.batch, c.columns, c.rows};
        transpose::batched_transpose(stream, in, out.view(c.type, extents, {c.rows * c.columns, c.rows, 1}));
        stream.synchronize();
        if (const std::string wrong = compare(c, out.read(stream), expected); !wrong.empty())
            return c.text() + ": " + wrong;

        const Tensor returned = transpose::batched_transpose(stream, in);
        if (returned.element() != c.type || !(returned.extents() == extents))
            return c.text() + ": the returned tensor has another type or other extents";
        const Tensor here = returned.to_host(stream);
        const auto* first = here.as<const std::uint8_t>();
        const std::string wrong = compare(c, {first, first + count * bytes}, expected);
        return wrong.empty() ? "" : c.text() + ": returned: " + wrong;
    } catch (const std::exception& error) {
        return c.text() + ": " + error.what();
    }
}

}  // namespace tessera::test
