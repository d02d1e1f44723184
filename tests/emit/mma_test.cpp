#include <catch2/catch.hpp>
#include <string>

#include "dsl/emit/cuda.hpp"
#include "dsl/ir/tensor_core.hpp"
#include "runtime/nvrtc/find.hpp"
#include "runtime/nvrtc/nvrtc.hpp"
#include "tests/emit/builder.hpp"

using namespace tessera;
using test::Builder;
using test::Ref;

namespace {

/// Multiplies words of each type that it loads and stores the sums.
ir::Program sample() {
    Builder b("products");
    b.program.threads = 32;
    b.program.grid = {b.l(1)};
    const Ref thread = b.let("at", b.cast(i64, b.thread()));
    for (const ir::TensorCoreInstruction& row : ir::tensor_core_instructions) {
        const std::string name = name_of(row.type);
        const int pack = 32 / bits_of(row.type);
        const int x = b.tensor(name + "_x", row.type, ir::Role::input, {b.l(1024)}, 16);
        const int y = b.tensor(name + "_y", f32, ir::Role::output, {b.l(128)}, 16);
        const int words = b.array(name + "_words", row.type, pack, 6), sums = b.array(name + "_sums", f32, 1, 4);
        const auto at = [&](int w) { return b.mul(b.add(b.mul(thread, b.l(6)), b.l(w)), b.l(pack)); };
        for (int w = 0; w < 6; ++w) b.load(Builder::global(x, at(w), pack), words, b.i(w));
        ir::MmaTile product{sums, {}, {}, {}};
        for (int w = 0; w < 4; ++w) b.set(sums, b.i(w), b.f(0)), product.into.push_back(b.i(w));
        for (int w = 0; w < 4; ++w) product.a.push_back(b.word(words, b.i(w)));
        for (int w = 4; w < 6; ++w) product.b.push_back(b.word(words, b.i(w)));
        b.put(product);
        b.store(Builder::global(y, b.mul(thread, b.l(4)), 4),
                {b.word(sums, b.i(0)), b.word(sums, b.i(1)), b.word(sums, b.i(2)), b.word(sums, b.i(3))});
    }
    return b.program;
}

}  // namespace

TEST_CASE("products are instructions of the tensor cores") {
    const std::string text = emit::cuda_text(sample(), Target::h200());
    CHECK_THAT(text, Catch::Contains("    mma_bf16(bf16_sums[0], bf16_sums[1], bf16_sums[2], bf16_sums[3], "
                                     "bf16_words[0], bf16_words[1], bf16_words[2],\n"));
    CHECK_THAT(text, Catch::Contains("bf16_words[3], bf16_words[4], bf16_words[5]);\n"));
    for (const ir::TensorCoreInstruction& row : ir::tensor_core_instructions)
        CHECK_THAT(text, Catch::Contains(std::string("mma.sync.aligned.") + row.name + " {%0, %1, %2, %3}"));
}

TEST_CASE("products compile for both architectures") {
    if (!runtime::nvrtc_search().path) {
        WARN("libnvrtc was not found, so nothing was compiled");
        return;
    }
    for (const Target& target : {Target::h200(), Target::b200()}) {
        const std::vector<std::string> options = {std::string("--gpu-architecture=") + target.arch(), "--std=c++17"};
        const auto outcome = runtime::Nvrtc::loaded().compile(emit::cuda_text(sample(), target), "mma.cu", options);
        INFO(outcome.log);
        CHECK(outcome.ok);
        for (const ir::TensorCoreInstruction& row : ir::tensor_core_instructions)
            CHECK_THAT(outcome.ptx, Catch::Contains(row.name));
    }
}
