#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tessera::test {

/// A call of the gate, forward and backward.
struct EngramGateCase {
    std::int64_t tokens, heads, hidden;
    std::int64_t blocks;  // of the backward
    std::int64_t shift;   // elements past an aligned address
    std::int64_t gap;     // elements between rows of k and v, which are slices of wider rows
    float eps, clamp;
    bool tiny_rows;  // every other row of x and k times 2⁻³³
    std::uint64_t seed;
    std::string text() const;
};
/// Token counts of 0, 1, 3, 5, 33, 127, 129 and random ones; multiprocessor counts of 1, 78, 114, 131, 132, 148.
std::vector<EngramGateCase> engram_gate_cases(int count);
/// 1 to 4 heads of up to 8,200 channels, several tokens a block.
std::vector<EngramGateCase> engram_wide_cases();

struct EngramHashCase {
    std::int64_t layers, tokens, columns, tables;
    bool wild;  // ids, multipliers and sizes of any size and sign; else as in the benchmark
    std::uint64_t seed;
    std::string text() const;
};
std::vector<EngramHashCase> engram_hash_cases(int count);

struct EngramReduceCase {
    std::int64_t rows, heads, hidden, shift;
    std::uint64_t seed;
    std::string text() const;
};
std::vector<EngramReduceCase> engram_reduce_cases(int count);

}  // namespace tessera::test
