#include <catch2/catch.hpp>
#include <cstring>
#include <tessera/quant.hpp>

#include "tests/gpu/check_all.hpp"
#include "tests/support/inputs.hpp"
#include "tests/support/kernels/checks.hpp"
#include "tests/support/kernels/exhaustive.hpp"
#include "tests/support/kernels/scale_memory.hpp"
#include "tests/support/lossless_cases.hpp"

// On the GPU: what tests/quant_packed checks on the host executor.

namespace {

using namespace tessera;
using namespace tessera::test;
using reference::Format;

constexpr Format formats[] = {Format::e4m3, Format::e2m1, Format::e5m6};

/// A hundred of the cases.
template <class Case>
void check_some(const char* kernel, const std::vector<Case>& cases, std::string (*check)(const Device&, const Case&)) {
    check_all(kernel, thinned(cases, 100), check);
}

/// The last row of a matrix of more than 2³¹ elements, zeros but for that row, against the same row alone.
void check_last_row(Format format, std::int64_t group) {
    const Stream stream = Device::cuda(0).stream();
    constexpr std::int64_t tokens = 299600, hidden = 7168;
    const Tensor x = Tensor::zeros(stream, bf16, {tokens, hidden});
    const auto values = hard_values(bf16, hidden, 9, format);
    const Tensor row = Tensor::from_host(stream, bf16, {1, hidden}, values.data());
    copy(stream, x.view().slice(0, tokens - 1, tokens), row);
    const quant::CastOptions options{element_of(format), group};
    const quant::Quantized all = quant::per_token_cast(stream, static_cast<const TensorView&>(x), options);

    const reference::QuantizeRule rule{1, group, reference::Scales::row_major, false, format};
    const auto expected = reference::quantize({values.data(), true, 1, hidden, hidden}, rule);
    const TensorView codes = all.data.view().slice(0, tokens - 1, tokens);
    CHECK(memory_of(stream, codes, expected.codes.size()) == expected.codes);
    const TensorView sf = all.sf.view().slice(0, tokens - 1, tokens);
    CHECK(compare_scales(memory_of(stream, sf, expected.scales.size() * 4),
                         ScaleMemory(1, hidden, rule, 0).laid_out(expected.scales)) == "");

    const Tensor back = quant::cast_back(stream, {all.data, all.sf, quant::ScaleLayout::row_major, 1, group}, f32);
    const auto exact = reference::cast_back(expected, 1, hidden, rule);
    const auto got = memory_of(stream, back.view().slice(0, tokens - 1, tokens), exact.size() * 4);
    CHECK(std::memcmp(got.data(), exact.data(), got.size()) == 0);
}

}  // namespace

TEST_CASE("random shapes of the packed casts", "[gpu][quant]") {
    check_some("per_token_cast to E2M1 and E5M6", packed_token_cast_cases(500), check_per_token_cast);
    check_some("per_block_cast to E2M1", packed_block_cast_cases(350), check_per_block_cast);
    check_some("per_token_cast_with_sf_only", packed_token_cast_cases(300), check_sf_only);
    check_some("per_token_cast_with_precomputed_sf", precomputed_cases(300), check_precomputed_sf);
    check_some("per_block_cast_with_sf_only", packed_block_cast_cases(300), check_sf_only);
    check_some("per_block_cast_with_precomputed_sf", precomputed_block_cases(300), check_precomputed_sf);
}

TEST_CASE("random shapes of casts of quantized input", "[gpu][quant]") {
    check_some("per_token_cast of a pair", requantize_cases(400), check_requantize);
    check_some("cast_back", cast_back_cases(400), check_cast_back);
}

TEST_CASE("random shapes of the lossless cast, among them scales that must be reported", "[gpu][quant]") {
    check_some("per_block_cast_lossless", lossless_cases(500), check_lossless);
}

TEST_CASE("whole domains of codes, midpoints, BF16 numbers and exponents", "[gpu][quant][C2][C6][C7][C12][C41]") {
    const Device device = Device::cuda(0);
    for (const Format format : formats) {
        CHECK(check_every_code(device, format) == "");
        CHECK(check_midpoints(device, format) == "");
        CHECK(check_every_bf16(device, format) == "");
        CHECK(check_every_exponent(device, format) == "");
    }
    CHECK(check_midpoints(device, Format::e5m6, true) == "");
    CHECK(check_scale_bytes(device) == "");
}

TEST_CASE("casts of more than 2^31 elements", "[gpu][quant][C9]") {
    check_last_row(Format::e4m3, 128);
    check_last_row(Format::e2m1, 32);
    check_last_row(Format::e5m6, 7168);
}
