// Sums of ragged rows, as a sparse matrix in CSR form or a batch of sequences has them: row r lies at
// values[starts[r] … starts[r + 1] − 1], and may be empty. A warp takes a row at a time, and each makes as many turns
// as its row is long.

#include <cstdio>
#include <exception>
#include <tessera/dsl.hpp>
#include <tessera/runtime.hpp>
#include <vector>

#include "usage.hpp"

using namespace tessera;

Program ragged_sum() {
    return record("ragged_sum", [](Kernel& k) {
        constexpr std::int64_t rows_per_block = 32, chunk = 256;
        const Dim rows = k.dim("rows"), elements = k.dim("elements");
        const auto values = k.input<f32>("values", {elements});
        const auto starts = k.input<i32>("starts", {rows + 1});
        const auto sums = k.output<f32>("sums", {rows});
        k.threads(128);
        const auto [block] = k.grid(ceil_div(rows, rows_per_block));

        k.each_warp(rows_per_block, [&](Index i) {
            const Index row = block * rows_per_block + i;
            k.when(row < rows, [&] {
                const Index first = cast<i64>(load(starts[row])), last = cast<i64>(load(starts[row + 1]));
                auto sum = k.variable(full({chunk}, Value<f32, 0>(0.0f)));
                k.serial(ceil_div(last - first, chunk), [&](Index j) {
                    const Index at = first + j * chunk;
                    const auto v = load(values.window({chunk}, {at}));
                    const auto inside = coordinates({chunk}, axis<0>) < last - at;
                    sum = sum.get() + select(inside, v, 0.0f);
                });
                store(sums[row], reduce_sum(sum.get(), axis<0>).squeeze(axis<0>));
            });
        });
    });
}

int main(int argc, char** argv) try {
    if (const auto code =
            answer(argc, argv,
                   "ragged_sum   (checks sums of ragged rows, on the GPU or else on the host; takes no arguments)"))
        return *code;
    const Device device = Device::best();
    const Stream stream = device.stream();
    const std::vector<std::int64_t> lengths = {0, 1, 31, 32, 33, 1000, 255, 256, 257};
    const std::int64_t rows = 1000;
    std::vector<std::int32_t> starts = {0};
    std::vector<float> expected;
    for (std::int64_t r = 0; r < rows; ++r) {
        const std::int64_t length = lengths[static_cast<std::size_t>(r) % lengths.size()];
        starts.push_back(starts.back() + static_cast<std::int32_t>(length));
        expected.push_back(static_cast<float>(length) * static_cast<float>(r % 7));
    }
    std::vector<float> numbers;  // those of row r are all r mod 7: a number from another row would be seen
    for (std::int64_t r = 0; r < rows; ++r)
        numbers.resize(static_cast<std::size_t>(starts[static_cast<std::size_t>(r) + 1]), static_cast<float>(r % 7));

    const Tensor values = Tensor::from_host(stream, f32, {starts.back()}, numbers.data());
    const Tensor begins = Tensor::from_host(stream, i32, {rows + 1}, starts.data());
    const Tensor sums = Tensor::empty(stream, f32, {rows});
    Engine::of(device).compile(ragged_sum()).launch(stream, {values, begins, sums});

    const Tensor result = sums.to_host(stream);
    for (std::size_t r = 0; r < expected.size(); ++r)
        if (result.as<float>()[r] != expected[r]) {
            std::printf("ragged_sum: row %zu is %g, not %g\n", r, static_cast<double>(result.as<float>()[r]),
                        static_cast<double>(expected[r]));
            return 1;
        }
    std::printf("ragged_sum: %lld rows of 0 to 1000 numbers on %s: every sum is right\n", static_cast<long long>(rows),
                device.name().c_str());
} catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
}
