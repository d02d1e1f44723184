#include <catch2/catch.hpp>
#include <exception>
#include <memory>
#include <string>
#include <tessera/moe.hpp>

#include "dsl/lower/lower.hpp"
#include "runtime/compiled_kernel.hpp"
#include "runtime/engine.hpp"
#include "tests/mutants/mutate.hpp"

// A kernel whose blocks wait for each other: without any one of its barriers or the grid sync it must not pass.

namespace {

using namespace tessera;
using namespace tessera::test;
using Counts = std::vector<std::int32_t>;

const Device host = Device::host();

/// True if the right result comes out, false if another does or the host executor stops the launch.
template <class Trial>
bool passes(const ir::Program& lowered, const Trial& trial) {
    try {
        return trial(Engine::of(host).compile_lowered(std::make_shared<const ir::Program>(lowered)));
    } catch (const std::exception&) {
        return false;
    }
}

/// At least `least` are tried, and all but `needless` of them make a difference.
template <class Trial>
void check_order(const Program& recorded, const Trial& trial, int least, int needless) {
    const ir::Program lowered = lower::lower(recorded.ir(), host.target());
    REQUIRE(passes(lowered, trial));
    int tried = 0, survivors = 0;
    std::string which;
    for (const Mutant& m : mutants_of(lowered)) {
        const bool ordering = m.fault.find("barrier") != std::string::npos || m.fault.find("grid") != std::string::npos;
        if (!ordering) continue;
        ++tried;
        if (passes(m.program, trial)) ++survivors, which += m.fault + "; ";
    }
    INFO(which);
    CHECK(survivors == needless);
    CHECK(tried >= least);
}

std::vector<std::int64_t> slots(std::int64_t count, std::int64_t experts) {
    std::vector<std::int64_t> ids;
    for (std::int64_t i = 0; i < count; ++i) ids.push_back(i * i % 7 == 3 ? -1 : i * 5 % experts);
    return ids;
}

}  // namespace

TEST_CASE("the mapping in one launch needs its barriers and its grid sync", "[mutants]") {
    constexpr std::int64_t count = 300, experts = 20, alignment = 4, rows = 400;
    const moe::MappingPlan plan{64, 128, 2, 2, 2};
    const auto ids = slots(count, experts);
    Counts expected_pos(count, -1), expected_slot(rows, -1);
    std::int64_t used = 0;
    for (std::int64_t e = 0; e < experts; ++e) {
        for (std::int64_t i = 0; i < count; ++i) {
            if (ids[static_cast<std::size_t>(i)] != e) continue;
            expected_slot[static_cast<std::size_t>(used)] = static_cast<std::int32_t>(i);
            expected_pos[static_cast<std::size_t>(i)] = static_cast<std::int32_t>(used++);
        }
        used = (used + alignment - 1) / alignment * alignment;
    }
    check_order(
        moe::map_slots_program(2, plan),
        [&](const CompiledKernel& kernel) {
            const auto tensor = [](std::int64_t n) { return Tensor::zeros(host, i32, {n}); };
            const Tensor in = Tensor::from_host(host, i64, {count}, ids.data()), pos = tensor(count),
                         slot = tensor(rows);
            kernel.launch(host.stream(),
                          {in, Tensor::zeros(host, i32, {plan.blocks, plan.wide}), tensor(experts), tensor(experts),
                           tensor(experts), pos, tensor(rows), tensor(rows), slot},
                          {Scalar("alignment", alignment)});
            return Counts(pos.as<const std::int32_t>(), pos.as<const std::int32_t>() + count) == expected_pos &&
                   Counts(slot.as<const std::int32_t>(), slot.as<const std::int32_t>() + rows) == expected_slot;
        },
        8, 1);  // counters that each thread reads and writes itself, by indices that the lowering does not see through
}
