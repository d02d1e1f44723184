#include "dsl/ir/kernel_ahead.hpp"

#include <algorithm>

#include "dsl/ir/diagnosis.hpp"
#include "dsl/ir/effects.hpp"
#include "dsl/ir/walk.hpp"

namespace tessera::ir {

namespace {

bool waits(const Statement& s) { return s.as<KernelAheadWait>() != nullptr; }

/// Of tensors, at most inputs are touched, and these are read.
bool reads_inputs_only(const Program& program, const Statement& s) {
    if (writes_of(s).touches_space(Space::global)) return false;
    const std::vector<MemoryId> read = reads_of(s).memories;
    return std::all_of(read.begin(), read.end(), [&](const MemoryId& m) {
        return m.space != Space::global || program.tensors[static_cast<std::size_t>(m.memory)].role == Role::input;
    });
}

const Statement* first_that_meets(const Program& program, const Body& body) {
    for (const Statement& s : body) {
        if (waits(s)) return nullptr;
        if (const auto* loop = s.as<For>()) {
            if (const Statement* const inside = first_that_meets(program, loop->body)) return inside;
        } else if (!reads_inputs_only(program, s)) {
            return &s;
        }
    }
    return nullptr;
}

}  // namespace

const Statement* meets_kernel_ahead(const Program& program) { return first_that_meets(program, program.body); }

void verify_kernel_ahead(const Program& program) {
    int all = 0;
    const Statement* last = nullptr;
    for_each_statement(program.body, [&](const Statement& s) {
        if (waits(s)) ++all, last = &s;
    });
    const auto at_top = std::count_if(program.body.begin(), program.body.end(), waits);
    const detail::Diagnosis at{program, last};
    at.require(all == at_top, "kernel-ahead", nullptr, "the kernel ahead is waited for at the top level only");
    at.require(all == (program.dependent_launch ? 1 : 0), "kernel-ahead", nullptr,
               "a program for dependent launches, and no other, waits once for the kernel ahead");
    if (all == 0) return;
    at.require(!program.cooperative, "kernel-ahead", nullptr,
               "blocks that wait for each other start all at once, not early");
    const Statement* const early = meets_kernel_ahead(program);
    detail::Diagnosis{program, early}.require(early == nullptr, "kernel-ahead", nullptr,
                                              "ahead of the wait, of tensors inputs alone are touched");
}

}  // namespace tessera::ir
