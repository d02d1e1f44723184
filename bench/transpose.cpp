#include "kernels/transpose.hpp"

#include <fmt/format.h>
#include <memory>

#include "bench/case.hpp"
#include "bench/inputs.hpp"

namespace tessera::bench {

namespace {

Case transpose_case(const char* kernel, std::string name, Element element, std::int64_t batch) {
    const Shape extents{batch, 8064, 7168}, turned{batch, 7168, 8064};
    return {kernel,
            std::move(name),
            2 * extents.count() * bits_of(element) / 8,
            [=](const Stream& stream, int count) -> std::function<void(int)> {
                auto in = std::make_shared<std::vector<Tensor>>(), out = std::make_shared<std::vector<Tensor>>();
                for (int i = 0; i < count; ++i) {
                    in->push_back(random_tensor(stream, element, extents, static_cast<unsigned>(i)));
                    out->push_back(Tensor::empty(stream, element, turned));
                }
                return [=](int i) {
                    const auto s = static_cast<std::size_t>(i % count);
                    transpose::batched_transpose(stream, (*in)[s], (*out)[s]);
                };
            },
            [=] { return transpose::batched_transpose_program(bits_of(element) / 8); },
            extents.count()};
}

}  // namespace

std::vector<Case> transpose_cases() {
    std::vector<Case> cases;
    for (Element element : {e4m3, bf16})
        cases.push_back(
            transpose_case("transpose", fmt::format("dtype={}, H=7168, T=8064", name_of(element)), element, 1));
    cases.push_back(transpose_case("transpose", "dtype=fp32, H=7168, T=8064", f32, 1));
    for (Element element : {e4m3, bf16, f32})
        cases.push_back(transpose_case(
            "batched_transpose",
            fmt::format("dtype={}, H=7168, E=8, T=8064", element == f32 ? "fp32" : name_of(element)), element, 8));
    return cases;
}

}  // namespace tessera::bench
