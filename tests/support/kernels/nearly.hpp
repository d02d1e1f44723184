#pragma once

#include <cstdint>
#include <string>
#include <vector>

// Comparison of outputs that come after an e^x: exact on the host executor, within what one ulp of it can do elsewhere.

namespace tessera::test {

/// What differs, or "". Codes and BF16 bits: unless `exact`, two in 10,000 may be the neighbour of what is expected.
std::string compare_codes(const char* name, const std::vector<std::uint8_t>& got,
                          const std::vector<std::uint8_t>& expected, bool exact);
std::string compare_bf16(const char* name, const std::vector<std::uint16_t>& got,
                         const std::vector<std::uint16_t>& expected, bool exact);
/// Words of scales. Unless `exact`, FP32 ones may be 1e-6 apart and two in 10,000 rounded ones another power of two.
std::string compare_scale_words(const char* name, const std::vector<std::uint32_t>& got,
                                const std::vector<std::uint32_t>& expected, bool rounded, bool exact);

}  // namespace tessera::test
