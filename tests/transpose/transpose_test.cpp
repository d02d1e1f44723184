#include <catch2/catch.hpp>
#include <tessera/transpose.hpp>

#include "dsl/base/error.hpp"
#include "tests/support/kernels/checks.hpp"

namespace {

using namespace tessera;
using namespace tessera::test;

const Device host = Device::host();

TransposeCase dense(std::int64_t batch, std::int64_t rows, std::int64_t columns, Element type) {
    return {batch, rows, columns, columns, 0, type, 21};
}

}  // namespace

TEST_CASE("batched_transpose agrees with the reference on 600 shapes", "[transpose]") {
    for (const TransposeCase& c : transpose_cases(600)) CHECK(check_batched_transpose(host, c) == "");
}

TEST_CASE("the host as another GPU transposes alike", "[transpose]") {
    for (const TransposeCase& c : thinned(transpose_cases(600), 60))
        CHECK(check_batched_transpose(Device::host(Target::b200()), c) == "");
}

TEST_CASE("sides that are no multiple of anything", "[transpose][C21]") {
    for (const Element type : {u8, e4m3, bf16, i16, f32, u32}) {
        CHECK(check_batched_transpose(host, dense(1, 1, 1, type)) == "");
        CHECK(check_batched_transpose(host, dense(1, 65, 127, type)) == "");
        CHECK(check_batched_transpose(host, dense(1, 33, 4097, type)) == "");
        CHECK(check_batched_transpose(host, dense(1, 64, 1, type)) == "");
        CHECK(check_batched_transpose(host, dense(3, 65, 127, type)) == "");
    }
}

TEST_CASE("empty sides give empty results of the right shape", "[transpose][C10]") {
    const Stream stream = host.stream();
    for (const Shape& extents : {Shape{0, 3, 5}, Shape{2, 0, 5}, Shape{2, 3, 0}}) {
        const TensorView none = TensorView::of(host, static_cast<void*>(nullptr), bf16, extents);
        CHECK(transpose::batched_transpose(stream, none).extents() == Shape{extents[0], extents[2], extents[1]});
    }
    const TensorView none = TensorView::of(host, static_cast<void*>(nullptr), u8, {0, 64});
    CHECK(transpose::transpose(stream, none).extents() == Shape{64, 0});
}

TEST_CASE("a column slice equals the contiguous matrix", "[transpose][C11]") {
    for (const std::int64_t shift : {0, 128, 5})
        for (const Element type : {u8, bf16, f32})
            CHECK(check_batched_transpose(host, {2, 70, 256, 512, shift, type, 3}) == "");
}

TEST_CASE("a matrix without a batch", "[transpose]") {
    std::vector<std::uint16_t> x(5 * 7);
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<std::uint16_t>(i * 257);
    const Stream stream = host.stream();
    const Tensor y =
        transpose::transpose(stream, TensorView::of(host, static_cast<const void*>(x.data()), u16, {5, 7}));
    REQUIRE(y.extents() == Shape{7, 5});
    for (int n = 0; n < 7; ++n)
        for (int m = 0; m < 5; ++m) CHECK(y.as<std::uint16_t>()[n * 5 + m] == x[m * 7 + n]);
}

TEST_CASE("odd strides are transposed or refused by name", "[transpose][C11]") {
    std::vector<std::uint8_t> x(64 * 64);
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<std::uint8_t>(i * 31);
    const Stream stream = host.stream();
    const auto view = [&](std::int64_t first, const Shape& strides) {
        return TensorView::of(host, static_cast<const void*>(x.data() + first), u8, {20, 30}, strides);
    };
    for (const auto& [first, rows, columns] :
         {std::tuple<std::int64_t, std::int64_t, std::int64_t>{0, 0, 1}, {63 * 64, -64, 1}, {0, 64, 2}}) {
        try {
            const Tensor y = transpose::transpose(stream, view(first, {rows, columns}));
            for (int n = 0; n < 30; ++n)
                for (int m = 0; m < 20; ++m)
                    REQUIRE(y.as<std::uint8_t>()[n * 20 + m] == x[first + m * rows + n * columns]);
        } catch (const UsageError& error) {
            CHECK_THAT(error.what(), Catch::Contains("stride"));
        }
    }
}

TEST_CASE("a transpose into the memory that it reads is refused", "[transpose]") {
    const Stream stream = host.stream();
    const Tensor all = Tensor::zeros(stream, f32, {4, 256, 256});
    const TensorView one = all.view().slice(0, 1, 2), same = one, other = all.view().slice(0, 2, 3),
                     both = all.view().slice(0, 1, 3);
    const auto message = "batched_transpose: out lies in the memory of x, which is read while it is written";
    CHECK_THROWS_WITH(transpose::batched_transpose(stream, one, same), Catch::Contains(message));
    CHECK_THROWS_WITH(transpose::batched_transpose(stream, both, all.view().slice(0, 0, 2)), Catch::Contains(message));
    CHECK_THROWS_WITH(transpose::batched_transpose(stream, both, all.view().slice(0, 2, 4)), Catch::Contains(message));
    CHECK_NOTHROW(transpose::batched_transpose(stream, one, other));
    CHECK_NOTHROW(transpose::batched_transpose(stream, other, one));
    TensorView matrix = one;
    matrix.extents = {256, 256}, matrix.strides = {256, 1};
    CHECK_THROWS_WITH(transpose::transpose(stream, matrix, matrix),
                      Catch::Contains("transpose: out lies in the memory"));
}
