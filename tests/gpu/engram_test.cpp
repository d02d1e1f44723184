#include <catch2/catch.hpp>
#include <cstdio>

#include "tests/support/kernels/engram_check.hpp"
#include "tests/support/shapes.hpp"

// On the GPU: the random shapes that the host executor is tested with.

namespace {

using namespace tessera;
using namespace tessera::test;

template <class Case>
void check_all(const char* kernel, const std::vector<Case>& cases, std::string (*check)(const Device&, const Case&)) {
    const Device device = Device::cuda(0);
    int right = 0;
    for (const Case& c : cases) {
        const std::string wrong = check(device, c);
        CHECK(wrong == "");
        if (wrong.empty()) ++right;
    }
    std::printf("%s: %d of %zu random shapes right on %s\n", kernel, right, cases.size(), device.name().c_str());
}

}  // namespace

TEST_CASE("random shapes of the Engram kernels", "[gpu][engram]") {
    check_all("engram gate", thinned(engram_gate_cases(320), 100), check_engram_gate);
    check_all("engram gate of wide rows", engram_wide_cases(), check_engram_gate);
    check_all("engram hash", thinned(engram_hash_cases(320), 100), check_engram_hash);
    check_all("engram grad_w_reduce", thinned(engram_reduce_cases(320), 100), check_engram_reduce);
    check_all("engram fused_weight", thinned(engram_reduce_cases(320), 40), check_engram_weight);
}
