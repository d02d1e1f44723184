#include "bench/case.hpp"

namespace tessera::bench {

const std::vector<Category>& categories() {
    static const std::vector<Category> all = {
        {"quant", quant_cases}, {"channel", channel_cases},     {"swiglu", swiglu_cases}, {"moe", moe_cases},
        {"gate", gate_cases},   {"transpose", transpose_cases}, {"engram", engram_cases}, {"mhc", mhc_cases},
    };
    return all;
}

}  // namespace tessera::bench
