#pragma once

#include <memory>

#include "bench/case.hpp"
#include "bench/inputs.hpp"

// Cases whose sets are lists of tensors.

namespace tessera::bench {

/// A case whose sets are tensors: `make` gives them for a seed, `launch` runs the kernel on one set.
inline Case case_of(const char* kernel, const std::string& name, std::int64_t bytes,
                    std::function<std::vector<Tensor>(const Stream&, unsigned)> make,
                    std::function<void(const Stream&, const std::vector<Tensor>&)> launch,
                    std::function<Program()> program, std::int64_t elements) {
    return {kernel,
            name,
            bytes,
            [=](const Stream& stream, int sets) -> std::function<void(int)> {
                auto all = std::make_shared<std::vector<std::vector<Tensor>>>();
                for (int i = 0; i < sets; ++i) all->push_back(make(stream, static_cast<unsigned>(8 * i)));
                return [=](int i) { launch(stream, (*all)[static_cast<std::size_t>(i % sets)]); };
            },
            std::move(program),
            elements};
}

/// Tensors of one set, from a seed.
class Maker {
public:
    Maker(const Stream& s, unsigned seed) : stream_(s), seed_(seed) {}
    Maker& in(Element e, const Shape& extents) {
        tensors_.push_back(random_tensor(stream_, e, extents, seed_++));
        return *this;
    }
    Maker& out(Element e, const Shape& extents) {
        tensors_.push_back(Tensor::empty(stream_, e, extents));
        return *this;
    }
    std::vector<Tensor> tensors() const { return tensors_; }

private:
    const Stream& stream_;
    unsigned seed_;
    std::vector<Tensor> tensors_;
};

}  // namespace tessera::bench
