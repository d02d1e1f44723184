#include "dsl/ir/effects.hpp"
#include "dsl/ir/print.hpp"
#include "dsl/ir/tensor_core.hpp"
#include "tests/ir/verify_support.hpp"

// Products on tensor cores in both stages.

using namespace tessera;
using namespace tessera::ir;
using namespace tessera::ir::sample;

namespace {

/// The recorded sample with a product of constants.
struct Multiplying : Recorded {
    Multiplying() {
        const Ref a = node(bf16, {16, 32}, Broadcast{constant(bf16, 1)});
        const Ref b = node(bf16, {8, 32}, Broadcast{constant(bf16, 2)});
        const Ref c = node(f32, {16, 8}, Broadcast{real(0)});
        put(f32, {16, 8}, Mma{a, b, c, 1});
    }
    void put(Element type, const Shape& shape, Mma op) {
        if (p.body.back().as<Bind>() && p.body.back().as<Bind>()->value->as<Mma>()) p.body.pop_back();
        p.body.push_back(statement(Bind{node(type, shape, op)}));
    }
    const Mma& op() const { return *p.body.back().as<Bind>()->value->as<Mma>(); }
    Ref tile(Element type, const Shape& shape) { return node(type, shape, Broadcast{constant(type, 0)}); }
};

/// The lowered sample with one instruction on an array of f32.
struct Instructing : Lowered {
    Instructing() {
        p.arrays.push_back({"sums", f32, 1, 4, ""});
        array = static_cast<int>(p.arrays.size()) - 1;
        p.body.push_back(statement(Declare{array}));
        const Ref word = node(bf16, {2}, Pack{{constant(bf16, 1), constant(bf16, 2)}});
        MmaTile product{array, {}, {word, word, word, word}, {word, word}};
        for (int i = 0; i < 4; ++i) product.into.push_back(narrow(i));
        p.body.push_back(statement(product));
    }
    MmaTile& product() { return *p.body.back().as<MmaTile>(); }
    int array;
};

}  // namespace

TEST_CASE("every type has one instruction, of 256 bits of depth") {
    for (const TensorCoreInstruction& row : tensor_core_instructions) {
        CHECK(row.depth * bits_of(row.type) == 256);
        CHECK(tensor_core_instruction(row.type) == &row);
    }
    CHECK(tensor_core_instruction(f32) == nullptr);
}

TEST_CASE("products print, and read and write their registers") {
    Multiplying recorded;
    CHECK(verdict(recorded.p) == "");
    CHECK_THAT(print_line(recorded.p, recorded.p.body.back()),
               Catch::Contains("= mma(broadcast(") && Catch::EndsWith(", warps 1)"));
    Instructing lowered;
    CHECK(verdict(lowered.p) == "");
    CHECK_THAT(print_line(lowered.p, lowered.p.body.back()),
               Catch::StartsWith("mma sums[(0, 1, 2, 3)] += (pack(") && Catch::Contains(") * (pack("));
    const std::vector<int> arrays{lowered.array};
    CHECK(reads_of(lowered.p.body.back()).arrays == arrays);
    CHECK(writes_of(lowered.p.body.back()).arrays == arrays);
}

TEST_CASE("recorded products have operands of one type and depth") {
    using M = Multiplying;
    const Breach<M> breaches[] = {
        {"operand-type", "that tensor cores multiply",
         [](M& s) { s.put(f32, {16, 8}, {s.tile(f32, {16, 32}), s.tile(f32, {8, 32}), s.op().c, 1}); }},
        {"operand-type", "one type", [](M& s) { s.put(f32, {16, 8}, {s.op().a, s.tile(f16, {8, 32}), s.op().c, 1}); }},
        {"operand-shape", "one depth",
         [](M& s) { s.put(f32, {16, 8}, {s.op().a, s.tile(bf16, {8, 16}), s.op().c, 1}); }},
        {"result-shape", "multiples of the instruction's",
         [](M& s) { s.put(f32, {8, 8}, {s.tile(bf16, {8, 32}), s.op().b, s.tile(f32, {8, 8}), 1}); }},
        {"index-range", "a power of two", [](M& s) { s.put(f32, {16, 8}, {s.op().a, s.op().b, s.op().c, 3}); }},
    };
    check_breaches(breaches);
}

TEST_CASE("lowered products have words of one type") {
    using I = Instructing;
    const Breach<I> breaches[] = {
        {"mma", "four words", [](I& s) { s.product().a.pop_back(); }},
        {"mma", "two of b", [](I& s) { s.product().b.pop_back(); }},
        {"register-range", "past its array", [](I& s) { s.product().into[3] = s.narrow(4); }},
        {"operand-type", "added to f32", [](I& s) { s.p.arrays[s.array].type = i32; }},
        {"operand-type", "words of one type", [](I& s) { s.product().b[1] = s.narrow(1); }},
        {"operand-type", "no instruction", [](I& s) { s.product().a[0] = s.narrow(1); }},
    };
    check_breaches(breaches);
}
