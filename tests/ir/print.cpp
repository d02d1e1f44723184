#include "dsl/ir/print.hpp"

#include <catch2/catch.hpp>

#include "tests/ir/sample.hpp"

using namespace tessera;
using namespace tessera::ir;
using namespace tessera::ir::sample;

TEST_CASE("a recorded program prints one statement a line with types and places") {
    const Recorded s;
    const std::string expected =
        R"(program rms_norm, recorded, 128 threads   // rms_norm.cpp:1
input x: bf16 [tokens, 1024] strides [1024, 1] align 16   // rms_norm.cpp:2
output y: bf16 [tokens, 1024] strides [1024, 1] align 16   // rms_norm.cpp:3
scalar tokens: i64, a multiple of 8   // rms_norm.cpp:2
shared t: f32 [4, 64] swizzle (bits 2, base 2, shift 4)   // rms_norm.cpp:4
variable s: f32 [4, 1]   // rms_norm.cpp:5
grid [(tokens + 3) / 4]
{
    %x = load x.block[4, 1024] at (block0 * 4, 0) fill 0.0   // bf16 [4, 1024]   rms_norm.cpp:10
    %v1 = f32(%x)   // f32 [4, 1024]   rms_norm.cpp:11
    %sum = reduce_sum(%v1 * %v1, axis 1)   // f32 [4, 1]   rms_norm.cpp:12
    s = %sum   // rms_norm.cpp:13
    for i in [0, tokens) {   // rms_norm.cpp:14
        %s = s.get()   // f32 [4, 1]   rms_norm.cpp:15
        s = %s + broadcast(f32(i), [4, 1])   // rms_norm.cpp:16
    }
    %s.2 = s.get()   // f32 [4, 1]   rms_norm.cpp:17
    store bf16(%v1 * broadcast(rsqrt(%s.2), [4, 1024])) to y.block[4, 1024] at (block0 * 4, 0)   // bf16 [4, 1024]   rms_norm.cpp:18
}
)";
    CHECK(print(s.p) == expected);
}

TEST_CASE("a lowered program prints names of locals and arrays") {
    const Lowered s;
    const std::string expected =
        R"(program absolute, lowered, 128 threads, 2048 shared bytes   // rms_norm.cpp:1
input x: bf16 [tokens, 1024] strides [1024, 1] align 16   // rms_norm.cpp:2
output y: bf16 [tokens, 1024] strides [1024, 1] align 16   // rms_norm.cpp:3
scalar tokens: i64   // rms_norm.cpp:2
shared t: bf16 [1024] at byte 0   // rms_norm.cpp:4
array xs: bf16x2 [4]   // [1, 1024]
array ts: bf16x2 [4]   // [1, 1024]
grid [tokens]
{
    let row = block   // i64   rms_norm.cpp:10
    let column = thread * 8   // i32   rms_norm.cpp:11
    // v = load x
    declare xs   // rms_norm.cpp:13
    xs[0] = load x[row, column] x8 along 1 at row * 1024 + i64(column) if row < tokens else 0.0   // bf16   rms_norm.cpp:14
    unrolled for i in [0, 4) {   // rms_norm.cpp:15
        xs[i] = abs(xs[i])   // rms_norm.cpp:16
    }
    store (xs[0], xs[1], xs[2], xs[3]) to t[column] x8 along 0 at column   // bf16   rms_norm.cpp:17
    barrier   // rms_norm.cpp:18
    declare ts   // rms_norm.cpp:19
    ts[0] = load t[column] x8 along 0 at column   // bf16   rms_norm.cpp:20
    store (ts[0], ts[1], ts[2], ts[3]) to y[row, column] x8 along 1 at row * 1024 + i64(column) if row < tokens   // bf16   rms_norm.cpp:21
}
)";
    CHECK(print(s.p) == expected);
}

TEST_CASE("a program prints the same text however its nodes are numbered") {
    Recorded plain;
    struct Late : Recorded {
        Late() {
            for (int i = 0; i < 7; ++i) real(1.0f);
            p.body.clear();
            p.loops = 0;
            at = 10;
            fill_body(wide(1));
        }
    } late;
    CHECK(print(late.p) == print(plain.p));
}

TEST_CASE("packed axes, picked axes and steps print") {
    Recorded s;
    s.p.tensors[0].axes[1].inner = 4;
    s.p.tensors[0].axes[1].inner_stride = 2;
    CHECK(print(s.p).find("strides [1024, 1 of 4 at 2] align 16") != std::string::npos);
    View view = s.rows(0);
    view.axes[0].extent = 1;
    view.axes[0].picked = true;
    const Ref piece = s.node(bf16, {1024}, Load{view, s.constant(bf16, 0), {8}});
    CHECK(print_line(s.p, s.statement(Assign{0, piece})) ==
          "s = load x.block[pick, 1024] at (block0 * 4, 0) fill 0.0 per thread [8]");
    const Ref streamed = s.node(bf16, {1024}, Load{view, s.constant(bf16, 0), {}, 0, Cache::streaming});
    CHECK(print_line(s.p, s.statement(Assign{0, streamed})) ==
          "s = load x.block[pick, 1024] at (block0 * 4, 0) fill 0.0 streaming");
    const Ref kept = s.node(bf16, {1024}, Load{view, s.constant(bf16, 0), {}, 0, Cache::kept});
    CHECK(print_line(s.p, s.statement(Assign{0, kept})).ends_with("fill 0.0 kept"));
    CHECK(print_line(s.p, s.statement(Store{view, piece, Cache::streaming})).ends_with("at (block0 * 4, 0) streaming"));
    const Ref vote = s.cast(i64, s.node(boolean, {}, WarpReduce{ReduceOp::min, s.constant(boolean, 1)}));
    CHECK(print_line(s.p, s.statement(For{0, "i", s.wide(0), vote, s.wide(1), false, {}, true, true})) ==
          "when by warps warp_min(true) {");
    const Statement loop = s.statement(For{0, "i", s.wide(0), s.tokens, s.wide(16), false, {}});
    CHECK(print_line(s.p, loop) == "for i in [0, tokens) step 16 {");
}

TEST_CASE("expressions have the parentheses that C++ needs and no others") {
    Build b;
    const Ref x = b.node(i64, {}, Parameter{0}), y = b.node(i64, {}, Parameter{1}), z = b.node(i64, {}, LoopIndex{2});
    const auto op = [&](BinaryOp o, Ref l, Ref r) { return b.binary(o, l, r); };
    CHECK(print(b.add(b.mul(x, y), z)) == "scalar0 * scalar1 + loop2");
    CHECK(print(b.mul(b.add(x, y), z)) == "(scalar0 + scalar1) * loop2");
    CHECK(print(b.add(b.add(x, y), z)) == "scalar0 + scalar1 + loop2");
    CHECK(print(b.add(x, b.add(y, z))) == "scalar0 + (scalar1 + loop2)");
    CHECK(print(op(BinaryOp::sub, x, op(BinaryOp::mod, y, z))) == "scalar0 - scalar1 % loop2");
    CHECK(print(op(BinaryOp::shl, b.add(x, y), z)) == "scalar0 + scalar1 << loop2");
    CHECK(print(op(BinaryOp::bit_and, op(BinaryOp::lt, x, y), op(BinaryOp::ne, y, z))) ==
          "scalar0 < scalar1 & scalar1 != loop2");
    CHECK(print(op(BinaryOp::eq, op(BinaryOp::bit_or, x, y), z)) == "(scalar0 | scalar1) == loop2");
    CHECK(print(op(BinaryOp::eq, op(BinaryOp::eq, x, y), op(BinaryOp::eq, y, z))) ==
          "(scalar0 == scalar1) == (scalar1 == loop2)");
    CHECK(print(op(BinaryOp::max, b.add(x, y), z)) == "max(scalar0 + scalar1, loop2)");
    CHECK(print(op(BinaryOp::max_nan, x, op(BinaryOp::min_nan, y, z))) == "max_nan(scalar0, min_nan(scalar1, loop2))");
    CHECK(print(b.unary(UnaryOp::neg, b.add(x, y))) == "-(scalar0 + scalar1)");
    CHECK(print(b.unary(UnaryOp::neg, b.unary(UnaryOp::neg, x))) == "-(-scalar0)");
    CHECK(print(b.unary(UnaryOp::neg, b.wide(-3))) == "-(-3)");
    CHECK(print(b.mul(b.wide(-3), x)) == "-3 * scalar0");
    CHECK(print(b.node(i64, {}, Select{op(BinaryOp::lt, x, y), x, b.unary(UnaryOp::bit_not, y)})) ==
          "select(scalar0 < scalar1, scalar0, ~scalar1)");
}

TEST_CASE("every kind of node has a spelling") {
    Build b;
    const Ref tile = b.node(f32, {2, 3}, VariableRead{1});
    CHECK(print(tile) == "variable1.get()");
    CHECK(print(b.node(f32, {6}, Reshape{tile})) == "reshape(variable1.get(), [6])");
    CHECK(print(b.node(f32, {3, 2}, Permute{tile, {1, 0}})) == "permute(variable1.get(), [1, 0])");
    CHECK(print(b.node(f32, {2, 3}, Convert{tile})) == "convert(variable1.get())");
    CHECK(print(b.node(f32, {2, 1}, Reduce{ReduceOp::max, tile, 1})) == "reduce_max(variable1.get(), axis 1)");
    CHECK(print(b.node(f32, {1, 3}, Reduce{ReduceOp::min, tile, 0})) == "reduce_min(variable1.get(), axis 0)");
    CHECK(print(b.node(i64, {2, 3}, Coordinate{1})) == "coordinate(axis 1 of [2, 3])");
    CHECK(print(b.node(i64, {}, BlockIndex{1})) == "block1");
    CHECK(print(b.node(i64, {}, LinearBlock{})) == "block");
    CHECK(print(b.node(i32, {}, ThreadIndex{})) == "thread");
    const Ref word = b.node(bf16, {2}, Register{3, b.narrow(1)});
    CHECK(print(word) == "array3[1]");
    CHECK(print(b.node(bf16, {}, Lane{word, 1})) == "array3[1].lane(1)");
    CHECK(print(b.node(bf16, {}, Lane{b.unary(UnaryOp::neg, word), 0})) == "(-array3[1]).lane(0)");
    CHECK(print(b.node(u16, {2}, Bitcast{word})) == "bitcast<u16x2>(array3[1])");
    CHECK(print(b.node(u32, {}, Bitcast{word})) == "bitcast<u32>(array3[1])");
    CHECK(print(b.node(bf16, {2}, Pack{{b.constant(bf16, 0x3F80), b.constant(bf16, 0)}})) == "pack(1.0, 0.0)");
    CHECK(print(b.node(f32, {}, Shuffle{b.node(f32, {}, Local{4}), 16})) == "shuffle(local4, xor 16)");
    CHECK(print(b.unary(UnaryOp::rsqrt, b.real(2.0f))) == "rsqrt(2.0)");
    CHECK(print(b.unary(UnaryOp::exp, b.real(2.0f))) == "exp(2.0)");
    CHECK(print(b.unary(UnaryOp::popcount, b.constant(u32, 5))) == "popcount(5)");
    CHECK(print(b.node(u32, {32}, Match{b.node(i64, {32}, Coordinate{0}), 0})) ==
          "match(coordinate(axis 0 of [32]), axis 0)");
    CHECK(print(b.unary(UnaryOp::sqrt, b.real(2.0f))) == "sqrt(2.0)");
    CHECK(print(b.unary(UnaryOp::log1p, b.real(2.0f))) == "log1p(2.0)");
    CHECK(print(b.node(f32, {2, 1}, Reduce{ReduceOp::dot, tile, 1})) == "reduce_dot(variable1.get(), axis 1)");
    CHECK(print(b.node(i32, {}, WarpReduce{ReduceOp::min, b.node(i32, {}, Local{4})})) == "warp_min(local4)");
    CHECK(print(b.node(u8, {1, 3}, Reduce{ReduceOp::bit_or, b.node(u8, {2, 3}, VariableRead{2}), 0})) ==
          "reduce_or(variable2.get(), axis 0)");
    CHECK(print(b.node(u32, {}, WarpReduce{ReduceOp::bit_or, b.node(u32, {}, Local{4})})) == "warp_or(local4)");
    const Ref code = b.node(e2m1, {}, Local{5}), a = b.node(e2m1, {}, Local{6}), c = b.node(e2m1, {}, Local{7});
    CHECK(print(b.node(e2m1, {}, Lookup{code, {b.node(e2m1, {8}, Pack{{a, c, a, c, a, c, a, c}})}, nullptr})) ==
          "lookup(local5, pack(local6, local7, local6, local7, local6, local7, local6, local7))");
    CHECK(print(b.node(u8, {}, Lookup{code, {b.node(u8, {4}, Local{8}), b.node(u8, {4}, Local{9})}, nullptr})) ==
          "lookup(local5, local8, local9)");
    CHECK(print(b.node(e2m1, {}, Lookup{code, {b.node(e2m1, {8}, Local{8})}, b.constant(boolean, 1)})) ==
          "lookup(local5, local8, true)");
    CHECK(print(b.node(i64, {4, 2}, Least{b.node(i64, {4, 8}, Coordinate{1}), 1, 1, 3})) ==
          "least(coordinate(axis 1 of [4, 8]), ranks 1 to 3, axis 1)");
    CHECK(print(b.node(f32, {}, Fma{b.real(2.0f), b.real(3.0f), b.real(-1.0f)})) == "fma(2.0, 3.0, -1.0)");
    CHECK(print(b.node(e2m1, {}, Cast{b.real(2.0f), true})) == "bounded_e2m1(2.0)");
    CHECK(print(b.binary(BinaryOp::div_bounded, b.real(2.0f), b.real(3.0f))) == "divide_bounded(2.0, 3.0)");
}

TEST_CASE("constants print by value") {
    Build b;
    CHECK(print(b.real(448.0f)) == "448.0");
    CHECK(print(b.real(1e-4f)) == "1e-04");
    CHECK(print(b.real(-0.0f)) == "-0.0");
    CHECK(print(b.constant(f32, 0x7F800000)) == "inf");
    CHECK(print(b.constant(f32, 0x7FC00001)) == "f32:0x7fc00001");
    CHECK(print(b.constant(f64, 0x3FF8000000000000)) == "1.5");
    CHECK(print(b.constant(f16, 0xC000)) == "-2.0");
    CHECK(print(b.constant(bf16, 0x3E00)) == "0.125");
    CHECK(print(b.constant(e4m3, 0x7E)) == "448.0");
    CHECK(print(b.constant(e2m1, 7)) == "e2m1:0x7");
    CHECK(print(b.constant(i8, 0xFF)) == "-1");
    CHECK(print(b.constant(u8, 0xFF)) == "255");
    CHECK(print(b.constant(u64, ~std::uint64_t{0})) == "18446744073709551615");
    CHECK(print(b.constant(boolean, 1)) == "true");
}

TEST_CASE("a long expression is cut") {
    Build b;
    Ref x = b.node(i64, {}, Parameter{0});
    for (int i = 0; i < 60; ++i) x = b.add(x, x);  // 2^60 leaves
    const std::string text = print(x, 40);
    CHECK(text.substr(0, 20) == "scalar0 + scalar0 + ");
    CHECK(text.size() == 40 + std::string("…").size());
}

TEST_CASE("an expression of a program prints with the program's names") {
    const Recorded s;
    CHECK(print(s.p, s.p.grid[0]) == "(tokens + 3) / 4");
    CHECK(print(s.p, s.sum) == "reduce_sum(%v1 * %v1, axis 1)");
    CHECK(print(s.p, nullptr) == "null");
}
