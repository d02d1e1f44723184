#include <catch2/catch.hpp>

#include "dsl/base/error.hpp"
#include "kernels/quant.hpp"
#include "kernels/transpose.hpp"
#include "tests/fake_gpu/support.hpp"

using namespace tessera;
using Catch::Matchers::Contains;

TEST_CASE("a tensor of another GPU is named, before anything is launched") {
    const Stream here = Device::cuda(0).stream(), there = Device::cuda(1).stream();
    const Tensor near_data = Tensor::zeros(here, e4m3, {2, 128}), far_data = Tensor::zeros(there, e4m3, {2, 128});
    const Tensor near_sf = Tensor::zeros(here, f32, {2, 1}), far_sf = Tensor::zeros(there, f32, {2, 1});
    const Tensor x = Tensor::zeros(there, bf16, {64, 64});
    fake::forget_calls();
    CHECK_THROWS_WITH(quant::cast_back(here, {far_data, near_sf}), Contains("x lies on") && Contains("copy it there"));
    CHECK_THROWS_WITH(quant::cast_back(here, {near_data, far_sf}), Contains("x_sf lies on"));
    CHECK_THROWS_WITH(transpose::transpose(here, x), Contains("x lies on"));
    CHECK(fake::count_of("cuLaunchKernel") == 0);
    CHECK(fake::count_of("cuMemAllocFromPoolAsync") == 0);
}
