#include <catch2/catch.hpp>

#include "tests/support/kernels/gate_check.hpp"

// Random shapes on the host executor against the reference.

using namespace tessera;
using namespace tessera::test;

namespace {

template <class Case>
void check_all(const std::vector<Case>& cases, std::string (*check)(const Device&, const Case&)) {
    for (std::size_t i = 0; i < cases.size(); ++i) {
        CHECK(check(Device::host(), cases[i]) == "");
        if (i % 10 == 0) CHECK(check(Device::host(Target::b200()), cases[i]) == "");
    }
}

}  // namespace

TEST_CASE("topk_gate agrees with a stable sort on 400 shapes", "[gate]") {
    check_all(topk_cases(400, false), check_topk);
}

TEST_CASE("topk_sum_and_topk_group_idx agrees with the reference on 400 shapes", "[gate]") {
    check_all(topk_cases(400, true), check_topk);
}

TEST_CASE("top2_sum_gate agrees with the reference on 400 shapes", "[gate]") {
    check_all(gate_cases(400), check_top2_sum_gate);
}

TEST_CASE("kernels of ids agree with the reference on 400 shapes", "[gate]") {
    check_all(ids_cases(400), check_mask_by_tp);
    check_all(ids_cases(400), check_unique);
    check_all(ids_cases(400), check_counts);
    check_all(ids_cases(400), check_normalize);
}
