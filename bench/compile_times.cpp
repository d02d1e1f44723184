#include "bench/compile_times.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fmt/format.h>
#include <functional>
#include <vector>

#include "dsl/emit/cuda.hpp"
#include "dsl/lower/lower.hpp"
#include "kernels/quant.hpp"
#include "kernels/transpose.hpp"
#include "runtime/compiler.hpp"

namespace tessera::bench {

namespace {

struct Recording {
    std::string name;
    std::function<Program()> record;
};

std::vector<Recording> recordings() {
    std::vector<Recording> all;
    for (Element in : {bf16, f32})
        for (bool aligned : {true, false})
            for (auto layout :
                 {quant::ScaleLayout::row_major, quant::ScaleLayout::column_major, quant::ScaleLayout::packed_ue8m0}) {
                for (std::int64_t group : {32, 128, 7168})
                    all.push_back({fmt::format("per_token_cast {} group {} {}", name_of(in), group,
                                               aligned ? "aligned" : "narrow"),
                                   [=] {
                                       quant::CastOptions o{e4m3, group, layout, false};
                                       return quant::per_token_cast_program(in, 7168, o, aligned);
                                   }});
                all.push_back({fmt::format("per_block_cast {} {}", name_of(in), aligned ? "aligned" : "narrow"), [=] {
                                   quant::BlockCastOptions o{e4m3, 128, 128, layout, false};
                                   return quant::per_block_cast_program(in, 7168, o, aligned);
                               }});
            }
    for (int bytes : {1, 2, 4})
        for (bool aligned : {true, false})
            all.push_back({fmt::format("batched_transpose {} bytes {}", bytes, aligned ? "aligned" : "narrow"),
                           [=] { return transpose::batched_transpose_program(bytes, aligned); }});
    return all;
}

double median(std::vector<double> v) {
    std::sort(v.begin(), v.end());
    return v[v.size() / 2];
}

}  // namespace

int print_compile_times(const Target& target) {
    using Clock = std::chrono::steady_clock;
    const auto ms = [](Clock::duration d) { return std::chrono::duration<double, std::milli>(d).count(); };
    runtime::CacheSettings no_cache;  // every kernel meets NVRTC
    no_cache.enabled = false;
    runtime::Compiler compiler(no_cache);
    runtime::CounterSet counters;
    std::vector<double> front, whole;
    fmt::print("for {}\n{:<56} {:>22} {:>18}\n", target.arch(), "kernel", "record+lower+emit ms", "with NVRTC ms");
    for (const Recording& r : recordings()) {
        std::vector<double> times;
        for (int i = 0; i < 5; ++i) {
            const auto start = Clock::now();
            const Program program = r.record();
            (void)emit::cuda_text(lower::lower(program.ir(), target), target);
            times.push_back(ms(Clock::now() - start));
        }
        front.push_back(median(times));
        const auto start = Clock::now();
        const Program program = r.record();
        (void)runtime::compile_lowered(compiler, lower::lower(program.ir(), target), target, counters);
        whole.push_back(ms(Clock::now() - start));
        fmt::print("{:<56} {:>22.2f} {:>18.1f}\n", r.name, front.back(), whole.back());
        std::fflush(stdout);
    }
    fmt::print("{:<56} {:>22.2f} {:>18.1f}\n", "median", median(front), median(whole));
    return 0;
}

}  // namespace tessera::bench
