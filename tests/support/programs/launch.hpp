#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "dsl/ir/program.hpp"
#include "dsl/ir/report.hpp"
#include "tests/support/programs/generator.hpp"

namespace tessera::test {

/// Copies of a case's tensors whose bases are aligned as the program demands and no better, between guard bytes.
class Buffers {
public:
    explicit Buffers(const ProgramCase& c);
    Buffers(const Buffers&) = delete;

    const std::vector<void*>& bases() const { return bases_; }
    /// Name of the first tensor whose guards were touched; "" if none.
    std::string broken_guard() const;

private:
    const ProgramCase& case_;
    std::vector<std::vector<std::uint8_t>> memory_;
    std::vector<void*> bases_;
};

/// Elements of two runs compared bit by bit: "" if equal, else the tensor, the element and both values.
std::string first_difference(const ProgramCase& c, const std::vector<void*>& expected, const std::vector<void*>& got);

/// What a launch says that found this; "" for nothing.
std::string report_of(const ProgramCase& c, const ir::Offender& first);

/// Runs the case by the evaluator and by `run`, which is given the bases and may throw. "" if all agree.
std::string disagreement(const ProgramCase& c, const std::function<void(const Buffers&)>& run);

}  // namespace tessera::test
