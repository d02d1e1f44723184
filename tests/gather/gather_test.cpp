#include <catch2/catch.hpp>
#include <cstdint>
#include <limits>
#include <tessera/dsl.hpp>
#include <tessera/runtime.hpp>
#include <vector>

#include "dsl/ir/verify.hpp"
#include "dsl/lower/lower.hpp"

// Windows whose offset along an axis is a tile of indices: loads gather, stores scatter, both ends are masked.

using namespace tessera;

namespace {

template <class T>
Tensor on_host(Element element, const Shape& extents, const std::vector<T>& values) {
    return Tensor::from_host(Device::host(), element, extents, values.data());
}
template <class T>
std::vector<T> values_of(const Tensor& t) {
    const auto* first = t.as<const T>();
    return {first, first + t.count()};
}
void run(Program program, std::initializer_list<TensorView> tensors) {
    ir::verify(program.ir());
    ir::verify(lower::lower(program.ir(), Target::h200()));
    Engine engine(Device::host());
    engine.compile(std::move(program)).launch(Device::host().stream(), tensors);
}

constexpr std::int64_t rows = 40, cols = 24;
std::vector<float> numbered(std::int64_t count) {
    std::vector<float> v;
    for (std::int64_t i = 0; i < count; ++i) v.push_back(static_cast<float>(i + 1));
    return v;
}
/// Rows of x, both ends overstepped.
template <class T>
std::vector<T> wild_rows() {
    std::vector<T> index;
    for (int i = 0; i < 64; ++i) index.push_back(static_cast<T>((i * 29) % rows));
    index[3] = -1;
    index[10] = static_cast<T>(rows);
    index[11] = std::numeric_limits<T>::min();
    index[63] = std::numeric_limits<T>::max();
    return index;
}

template <Element I, class T>
void check_gather() {
    const std::vector<float> x = numbered(rows * cols);
    const std::vector<T> index = wild_rows<T>();
    const Tensor out = Tensor::zeros(Device::host(), f32, {64, cols});
    run(record("gather_rows",
               [](Kernel& k) {
                   const auto in = k.input<f32>("x", {k.dim("rows"), cols});
                   const auto at = k.input<I>("index", {64});
                   const auto y = k.output<f32>("y", {64, cols});
                   k.grid(1);
                   const auto i = load(at.window({64}, {0}));
                   store(y.window({64, cols}, {0, 0}), load(in.window({64, cols}, {i, 0}), -5.0f));
               }),
        {on_host(f32, {rows, cols}, x), on_host(I, {64}, index), out});
    const std::vector<float> y = values_of<float>(out);
    for (std::int64_t p = 0; p < 64; ++p)
        for (std::int64_t c = 0; c < cols; ++c) {
            const bool inside = index[p] >= 0 && index[p] < rows;
            REQUIRE(y[p * cols + c] == (inside ? x[index[p] * cols + c] : -5.0f));
        }
}

}  // namespace

TEST_CASE("a load gathers rows at i32 and i64 indices and fills what lies outside", "[gather]") {
    check_gather<i32, std::int32_t>();
    check_gather<i64, std::int64_t>();
}

TEST_CASE("a store scatters rows and leaves the others alone", "[gather]") {
    std::vector<std::int32_t> index = wild_rows<std::int32_t>();
    for (int i = 0; i < 64; ++i)
        if (i >= rows && index[i] >= 0 && index[i] < rows) index[i] = -1;  // each row once
    const std::vector<float> x = numbered(64 * cols);
    const Tensor out = on_host(f32, {rows, cols}, std::vector<float>(rows * cols, -7.0f));
    run(record("scatter_rows",
               [](Kernel& k) {
                   const auto in = k.input<f32>("x", {64, cols});
                   const auto at = k.input<i32>("index", {64});
                   const auto y = k.output<f32>("y", {k.dim("rows"), cols});
                   k.grid(1);
                   const auto v = load(in.window({64, cols}, {0, 0}));
                   store(y.window({64, cols}, {load(at.window({64}, {0})), 0}), v);
               }),
        {on_host(f32, {64, cols}, x), on_host(i32, {64}, index), out});
    std::vector<float> expected(rows * cols, -7.0f);
    for (std::int64_t p = 0; p < 64; ++p)
        if (index[p] >= 0 && index[p] < rows)
            for (std::int64_t c = 0; c < cols; ++c) expected[index[p] * cols + c] = x[p * cols + c];
    CHECK(values_of<float>(out) == expected);
}

TEST_CASE("indices along the contiguous axis, and along both axes at once", "[gather]") {
    const std::vector<float> x = numbered(rows * cols);
    const Tensor out = Tensor::zeros(Device::host(), f32, {32, 16});
    run(record("gather_both",
               [](Kernel& k) {
                   const auto in = k.input<f32>("x", {rows, cols});
                   const auto y = k.output<f32>("y", {32, 16});
                   k.grid(1);
                   const auto row = (coordinates({32}, axis<0>) * 7) % rows;
                   const auto col = Index(cols - 1) - coordinates({16}, axis<0>) * 2;
                   store(y.window({32, 16}, {0, 0}), load(in.window({32, 16}, {row, col})));
               }),
        {on_host(f32, {rows, cols}, x), out});
    const std::vector<float> y = values_of<float>(out);
    for (std::int64_t r = 0; r < 32; ++r)
        for (std::int64_t c = 0; c < 16; ++c) {
            const std::int64_t col = cols - 1 - 2 * c;
            REQUIRE(y[r * 16 + c] == (col < 0 ? 0.0f : x[r * 7 % rows * cols + col]));
        }
}

TEST_CASE("one tile of indices serves tiles that lie over the threads in different ways", "[gather]") {
    const std::vector<float> x = numbered(rows * cols), s = numbered(rows * 3);
    const std::vector<std::int32_t> index = wild_rows<std::int32_t>();
    const Tensor wide = Tensor::zeros(Device::host(), f32, {64, cols}),
                 narrow = Tensor::zeros(Device::host(), f32, {64, 3});
    run(record("gather_two",
               [](Kernel& k) {
                   const auto in = k.input<f32>("x", {rows, cols});
                   const auto scale = k.input<f32>("s", {rows, 3}, {.align = 4});
                   const auto at = k.input<i32>("index", {64});
                   const auto y = k.output<f32>("y", {64, cols});
                   const auto z = k.output<f32>("z", {64, 3}, {.align = 4});
                   k.grid(1);
                   const auto i = load(at.window({64}, {0}));
                   const auto v = load(in.window({64, cols}, {i, 0}));
                   const auto w = load(scale.window({64, 3}, {i, 0}));
                   store(y.window({64, cols}, {0, 0}), v);
                   store(z.window({64, 3}, {0, 0}), w);
               }),
        {on_host(f32, {rows, cols}, x), on_host(f32, {rows, 3}, s), on_host(i32, {64}, index), wide, narrow});
    const std::vector<float> y = values_of<float>(wide), z = values_of<float>(narrow);
    for (std::int64_t p = 0; p < 64; ++p) {
        const bool inside = index[p] >= 0 && index[p] < rows;
        for (std::int64_t c = 0; c < cols; ++c) REQUIRE(y[p * cols + c] == (inside ? x[index[p] * cols + c] : 0.0f));
        for (std::int64_t c = 0; c < 3; ++c) REQUIRE(z[p * 3 + c] == (inside ? s[index[p] * 3 + c] : 0.0f));
    }
}

TEST_CASE("a wrong number of indices is refused at the writer's line", "[gather]") {
    CHECK_THROWS_WITH(record("short",
                             [](Kernel& k) {
                                 const auto in = k.input<f32>("x", {rows, cols});
                                 k.grid(1);
                                 load(in.window({64, cols}, {coordinates({32}, axis<0>), 0}));
                             }),
                      Catch::Contains("32 indices for a window of extent 64 along axis 0 of x") &&
                          Catch::Contains("gather_test.cpp"));
    CHECK_THROWS_WITH(record("into_shared",
                             [](Kernel& k) {
                                 const auto tile = k.shared<f32>("tile", {64, 32});
                                 k.grid(1);
                                 load(tile.window({64, 32}, {coordinates({60}, axis<0>), 0}));
                             }),
                      Catch::Contains("60 indices for a window of extent 64 along axis 0 of tile"));
}
