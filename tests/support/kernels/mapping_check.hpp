#pragma once

#include <string>
#include <tessera/moe.hpp>
#include <vector>

#include "runtime/device.hpp"

namespace tessera::test {

struct MappingCase {
    std::int64_t tokens, topk, experts, alignment;
    std::int64_t rows;  // given; −1: as many as needed
    std::vector<std::int64_t> ids;

    std::string text() const;
};
/// Deterministic; some ids are out of range.
std::vector<MappingCase> mapping_cases(int count);

/// Few, of more slots or experts than a block takes at once.
std::vector<MappingCase> large_mapping_cases();

/// Both ways of the mapping: "" if every tensor is that of a stable counting sort, else what differs.
std::string check_mapping(const Device& device, const MappingCase& c);

}  // namespace tessera::test
