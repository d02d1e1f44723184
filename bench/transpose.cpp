#include "kernels/transpose.hpp"

#include <fmt/format.h>

#include "bench/case.hpp"
#include "bench/inputs.hpp"

namespace tessera::bench {

std::vector<Case> transpose_cases() {
    std::vector<Case> cases;
    for (std::int64_t batch : {1, 8})
        for (Element element : {e4m3, bf16, f32}) {
            const Shape extents{batch, 8064, 7168};
            const std::int64_t bytes = 2 * extents.count() * bits_of(element) / 8;
            cases.push_back({"batched_transpose", fmt::format("E={} T=8064 H=7168 dtype={}", batch, name_of(element)),
                             bytes, [=](const Stream& stream, int count) -> std::function<void(int)> {
                                 auto in = std::make_shared<std::vector<Tensor>>(), out = in;
                                 out = std::make_shared<std::vector<Tensor>>();
                                 for (int i = 0; i < count; ++i) {
                                     in->push_back(random_tensor(stream, element, extents, static_cast<unsigned>(i)));
                                     out->push_back(Tensor::empty(stream, element, {batch, 7168, 8064}));
                                 }
                                 return [=](int i) {
                                     const auto s = static_cast<std::size_t>(i % count);
                                     transpose::batched_transpose(stream, (*in)[s], (*out)[s]);
                                 };
                             }});
        }
    return cases;
}

}  // namespace tessera::bench
