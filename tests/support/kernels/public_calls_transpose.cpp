#include "kernels/transpose.hpp"
#include "tests/support/kernels/public_call_inputs.hpp"

namespace tessera::test {

namespace {

PreparedCall batched_transpose(const Stream& s, std::uint64_t seed) {
    Random random(seed);
    const Tensor x = filled(s, bf16, {2, tokens, hidden}, random);
    return call_of(
        {x}, [=] { return std::vector<Tensor>{transpose::batched_transpose(s, x)}; },
        [=](Out o) { return [=] { transpose::batched_transpose(s, x, o[0]); }; });
}

PreparedCall plain_transpose(const Stream& s, std::uint64_t seed) {
    Random random(seed);
    const Tensor x = filled(s, e4m3, {tokens, hidden}, random);
    return call_of(
        {x}, [=] { return std::vector<Tensor>{transpose::transpose(s, x)}; },
        [=](Out o) { return [=] { transpose::transpose(s, x, o[0]); }; });
}

}  // namespace

std::vector<PublicCall> transpose_calls() {
    return {
        {"transpose::batched_transpose", batched_transpose},
        {"transpose::transpose", plain_transpose},
    };
}

}  // namespace tessera::test
