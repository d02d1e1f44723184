#pragma once

#include <catch2/catch.hpp>
#include <cstdint>
#include <memory>
#include <string>
#include <tessera/dsl.hpp>
#include <utility>
#include <vector>

#include "dsl/base/error.hpp"
#include "dsl/emit/cuda.hpp"
#include "dsl/host/executor.hpp"
#include "dsl/ir/verify.hpp"
#include "dsl/ir/walk.hpp"
#include "dsl/lower/lower.hpp"
#include "tests/support/programs/run_on_device.hpp"

// Programs written with the DSL, lowered for both targets, verified, printed and run on the host with every check on.
// Expected values come from plain loops in the tests.

namespace tessera::test {

/// A kernel lowered for one target.
class Lowered {
public:
    Lowered(const Program& program, const Target& target)
        : target_(target), program_(std::make_shared<const ir::Program>(lower::lower(program.ir(), target))) {
        ir::verify(program.ir());
        ir::verify(*program_);
        text_ = emit::cuda_text(*program_, target);
    }
    const ir::Program& program() const { return *program_; }
    const std::string& text() const { return text_; }

    /// False for the longest texts, over which ptxas would take minutes. Lines that name files do not count, since they
    /// are as long as the path of the sources.
    bool fit_for_a_gpu() const {
        return emit::cuda_text(*program_, target_, {.line_directives = false}).size() < 11000;
    }

    /// Tensors by vector, in order, then the scalars. Where there is a GPU of the target, it must give the same bytes
    /// if the text is fit for it.
    template <class... T>
    void run(std::vector<std::uint64_t> scalars, std::vector<T>&... tensors) const {
        const Device device = Device::best();
        const bool on_device = !device.is_host() && device.target().sm == target_.sm && fit_for_a_gpu();
        std::vector<std::vector<std::uint8_t>> there;
        if (on_device) {
            there = {bytes_of(tensors)...};
            run_on_device(device, program_, there, scalars);
        }
        run_at({static_cast<void*>(tensors.data())...}, std::move(scalars));
        if (on_device) CHECK(there == std::vector<std::vector<std::uint8_t>>{bytes_of(tensors)...});
    }
    void run_at(std::vector<void*> bases, std::vector<std::uint64_t> scalars) const {
        host::Settings settings;
        settings.workers = 1;
        host::Executable(program_).run({std::move(bases), std::move(scalars)}, settings);
    }

    template <class Kind>
    int count() const {
        int n = 0;
        ir::for_each_statement(program_->body, [&](const ir::Statement& s) { n += s.as<Kind>() != nullptr; });
        return n;
    }

private:
    template <class T>
    static std::vector<std::uint8_t> bytes_of(const std::vector<T>& v) {
        const auto* first = reinterpret_cast<const std::uint8_t*>(v.data());
        return {first, first + v.size() * sizeof(T)};
    }

    Target target_;
    std::shared_ptr<const ir::Program> program_;
    std::string text_;
};

/// Calls check(lowered) for each target.
template <class Check>
void on_targets(const Program& program, Check&& check) {
    for (const Target& target : {Target::h200(), Target::b200()}) {
        INFO(target.arch());
        check(Lowered(program, target));
    }
}

/// Small whole numbers that repeat late: exact in every type and in sums of thousands of f32.
template <class T>
std::vector<T> numbers(std::int64_t count, std::int64_t low = -9, std::int64_t high = 9) {
    std::vector<T> v(static_cast<std::size_t>(count));
    std::uint64_t state = 12345;
    for (T& x : v) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        x = static_cast<T>(low + static_cast<std::int64_t>((state >> 33) % static_cast<std::uint64_t>(high - low + 1)));
    }
    return v;
}

struct TileShape {
    std::int64_t rows, cols;
    int threads;
};
/// Tiles that fit no warp, fit it exactly, are smaller and much larger than the block.
inline const std::vector<TileShape>& tile_shapes() {
    static const std::vector<TileShape> shapes = {{3, 5, 32},   {1, 1, 128},    {7, 96, 64},  {1, 3, 1024},
                                                  {64, 1, 128}, {2, 2048, 128}, {33, 40, 32}, {16, 64, 256},
                                                  {6, 35, 128}, {12, 8, 512}};
    return shapes;
}

}  // namespace tessera::test
