#include <algorithm>
#include <catch2/catch.hpp>
#include <sstream>
#include <string>

#include "dsl/emit/cuda.hpp"
#include "dsl/emit/helpers.hpp"
#include "dsl/emit/writer.hpp"
#include "tests/emit/builder.hpp"
#include "tests/emit/samples.hpp"

using namespace tessera;
using test::Builder;

namespace {

std::size_t count(const std::string& text, const std::string& what) {
    std::size_t n = 0;
    for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++n;
    return n;
}

}  // namespace

TEST_CASE("helpers: only those that are called are put in, once") {
    const std::string text = emit::cuda_text(test::cast_sample(), Target::h200());
    std::size_t used = 0;
    for (const emit::Helper& helper : emit::helper_table()) {
        const std::string call = std::string(helper.name) + "(";
        if (count(text, call) == 0) continue;
        ++used;
        CHECK(count(text, " " + call) >= 1);
        CHECK(count(text, call) >= 2);  // its definition and a call
        CHECK(count(text, "unsigned " + call) == 1);
    }
    CHECK(used == 2);  // e4m3x4_from_f32, max_bf16x2
    CHECK(count(text, "__device__") == 5);
}

TEST_CASE("helpers: what a helper calls stands before it, in the table and in the text") {
    const auto table = emit::helper_table();
    for (std::size_t i = 0; i < table.size(); ++i)
        for (const std::string& needed : table[i].needs) {
            const auto at =
                std::find_if(table.begin(), table.end(), [&](const emit::Helper& h) { return h.name == needed; });
            CHECK(at - table.begin() < static_cast<std::ptrdiff_t>(i));
        }
    emit::HelperSet set;
    set.use("f32_from_e4m3");
    CHECK(set.text().find("float f32_from_f16(") < set.text().find("float f32_from_e4m3("));
}

TEST_CASE("helpers: the order of use does not show") {
    emit::HelperSet forward, backward;
    const emit::MemoryHelper load{emit::AccessKind::load_read_only, true, 16, emit::WordType::f32};
    const emit::MemoryHelper store{emit::AccessKind::store, false, 8, emit::WordType::u32};
    forward.use("max_bf16x2"), forward.use("f32_from_f16"), forward.use(load), forward.use(store);
    backward.use(store), backward.use(load), backward.use("f32_from_f16"), backward.use("max_bf16x2");
    backward.use(load);
    CHECK(forward.text() == backward.text());
}

TEST_CASE("lines: none is longer than 120 columns where a break is possible") {
    for (const ir::Program& program :
         {test::cast_sample(), test::transpose_sample(), test::normalize_sample(), test::packed_sample()}) {
        std::istringstream lines(emit::cuda_text(program, Target::h200()) + emit::cuda_text(program, Target::b200()));
        for (std::string line; std::getline(lines, line);) {
            const bool comment = line.find("//") != std::string::npos;
            CHECK((comment || line.size() <= 120));
        }
    }
}

TEST_CASE("lines: they break outside of as many brackets as possible") {
    const std::string a(50, 'a'), b(40, 'b'), c(40, 'c');
    CHECK(emit::wrapped("f(" + a + ", g(" + b + ", " + c + "));", 0) ==
          "f(" + a + ",\n        g(" + b + ", " + c + "));");
}

TEST_CASE("lines: a place is named when it changes, and a statement without one changes nothing") {
    Builder b("places");
    b.at("a.cpp", 3);
    b.barrier();
    b.barrier();
    b.nowhere();
    b.barrier();
    b.at("a.cpp", 3);
    b.barrier();
    b.at("b.cpp", 3);
    b.barrier();
    const std::string text = emit::cuda_text(b.program, Target::h200());
    CHECK(count(text, "#line") == 2);
    CHECK(count(text, "#line 3 \"a.cpp\"\n    __syncthreads();\n    __syncthreads();\n") == 1);
    CHECK(count(text, "#line 3 \"b.cpp\"\n    __syncthreads();\n}") == 1);
}

TEST_CASE("shared memory: static while it may be, dynamic above 48 KiB") {
    Builder small("small"), large("large");
    small.shared("tile", f32, {4, 8}, 0);
    small.shared("rest", bf16, {8}, 128);
    small.program.shared_bytes = 144;
    large.shared("tile", f32, {128, 128}, 0, {3, 2, 5});
    large.program.shared_bytes = 65536;
    const std::string fixed = emit::cuda_text(small.program, Target::h200());
    CHECK(count(fixed, "    __shared__ __align__(128) unsigned char shared_memory[144];\n") == 1);
    CHECK(count(fixed, "float* const tile = reinterpret_cast<float*>(shared_memory);  // f32 [4, 8]\n") == 1);
    CHECK(count(fixed,
                "unsigned short* const rest = reinterpret_cast<unsigned short*>(shared_memory + 128);  "
                "// bf16 [8]\n") == 1);
    CHECK(emit::dynamic_shared_bytes(small.program) == 0);
    CHECK(emit::dynamic_shared_bytes(large.program) == 65536);
    const std::string dynamic = emit::cuda_text(large.program, Target::h200());
    CHECK(count(dynamic, "extern __shared__ __align__(128) unsigned char shared_memory[];") == 1);
    CHECK(count(dynamic, "// f32 [128, 128], XOR swizzle (bits 3, base 2, shift 5)\n") == 1);
}

TEST_CASE("signature: strides are named unless the rows follow each other without gaps") {
    Builder b("strides");
    const ir::Ref m = b.parameter(b.scalar("m")), n = b.parameter(b.scalar("n", i64, 8));
    b.tensor("a", bf16, ir::Role::input, {m, n, b.l(4)});
    b.tensor("b", u8, ir::Role::inout, {m, n});
    b.program.tensors[1].axes[0].stride = b.mul(n, b.l(2));
    const std::string text = emit::cuda_text(b.program, Target::h200());
    CHECK(count(text, "    const unsigned short* __restrict__ a,  // bf16 [m, n, 4]\n") == 1);
    CHECK(count(text, "    unsigned char* b,                      // u8 [m, n] strides [n * 2, 1]\n") == 1);
    CHECK(count(text, "    long long n                            // i64, a multiple of 8\n) {") == 1);
}
