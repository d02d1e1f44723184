#include "tests/support/kernels/public_calls.hpp"

#include "tests/support/kernels/public_call_inputs.hpp"

namespace tessera::test {

void PreparedCall::clear_outputs(const Stream& stream) const {
    for (const Tensor& out : outputs) copy(stream, out, Tensor::zeros(stream, out.element(), out.extents()));
}

std::vector<std::uint8_t> PreparedCall::bytes_of(const Stream& stream, const std::vector<Tensor>& tensors) {
    std::vector<std::uint8_t> bytes;
    for (const Tensor& t : tensors) {
        const Tensor host = t.to_host(stream);
        bytes.insert(bytes.end(), host.as<std::uint8_t>(), host.as<std::uint8_t>() + host.bytes());
    }
    return bytes;
}

const std::vector<PublicCall>& public_calls() {
    static const std::vector<PublicCall> calls = [] {
        std::vector<PublicCall> all;
        for (auto* some :
             {quant_calls, moe_calls, swiglu_calls, engram_calls, mhc_calls, mhc_norm_calls, transpose_calls})
            for (const PublicCall& call : some()) all.push_back(call);
        return all;
    }();
    return calls;
}

}  // namespace tessera::test
