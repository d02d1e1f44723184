#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

// A CUPTI without a GPU, as libcupti.so.13 of the tests: what a flush delivers is what the test has put in before. It
// holds its caller to CUPTI's rules: callbacks come before kinds, kinds before a flush.

namespace tessera::fake {

/// An activity, in nanoseconds after the time that the last question for the clock gave.
struct Activity {
    std::uint32_t kind;
    std::uint64_t begin, end;
};

struct CuptiControl {
    std::uint32_t version = 130001;
    std::size_t record_bytes = 216;                 // of CUpti_ActivityKernel10
    std::uint64_t clock = 1'000'000'000'000;        // 10 ms later at each question
    std::vector<std::vector<Activity>> deliveries;  // of the next flushes, each in a buffer of its own
    std::size_t dropped = 0;
    std::string fails;  // the function that gives `result`
    int result = 0;
    int kinds_enabled = 0, flushes = 0;
};

}  // namespace tessera::fake
