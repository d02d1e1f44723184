#include <memory>

#include "bench/case.hpp"
#include "bench/inputs.hpp"
#include "kernels/mhc_mixes.hpp"

namespace tessera::bench {

namespace {

constexpr std::int64_t tokens = 8192, streams = 4;
using Launcher = std::function<void(int)>;

/// A case whose sets are tensors: `make` gives them for a seed, `launch` runs the kernel on one set.
Case case_of(const char* kernel, const std::string& name, std::int64_t bytes,
             std::function<std::vector<Tensor>(const Stream&, unsigned)> make,
             std::function<void(const Stream&, const std::vector<Tensor>&)> launch, std::function<Program()> program,
             std::int64_t elements) {
    return {kernel,
            name,
            bytes,
            [=](const Stream& stream, int sets) -> Launcher {
                auto all = std::make_shared<std::vector<std::vector<Tensor>>>();
                for (int i = 0; i < sets; ++i) all->push_back(make(stream, static_cast<unsigned>(8 * i)));
                return [=](int i) { launch(stream, (*all)[static_cast<std::size_t>(i % sets)]); };
            },
            std::move(program),
            elements};
}

void add_sinkhorn(std::vector<Case>& cases) {
    const Shape matrices{tokens, streams, streams};
    const mhc::SinkhornOptions options;
    const std::string name = "T=8192, m=4, repeat=10";
    cases.push_back(case_of(
        "mhc_sinkhorn_fwd", name, matrices.count() * 8,
        [=](const Stream& s, unsigned seed) {
            return std::vector<Tensor>{random_tensor(s, f32, matrices, seed), Tensor::empty(s, f32, matrices)};
        },
        [=](const Stream& s, const std::vector<Tensor>& t) { mhc::sinkhorn_forward(s, t[0], t[1], options); },
        [] { return mhc::sinkhorn_forward_program({}); }, matrices.count()));
    cases.push_back(case_of(
        "mhc_sinkhorn_bwd", name, matrices.count() * 12,
        [=](const Stream& s, unsigned seed) {
            return std::vector<Tensor>{random_tensor(s, f32, matrices, seed), random_tensor(s, f32, matrices, seed + 1),
                                       Tensor::empty(s, f32, matrices)};
        },
        [=](const Stream& s, const std::vector<Tensor>& t) { mhc::sinkhorn_backward(s, t[0], t[1], t[2], options); },
        [=] { return mhc::sinkhorn_backward_program({}, options.repeat); }, matrices.count()));
}

}  // namespace

std::vector<Case> mhc_cases() {
    std::vector<Case> cases;
    add_sinkhorn(cases);
    return cases;
}

}  // namespace tessera::bench
