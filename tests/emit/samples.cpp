#include "tests/emit/samples.hpp"

#include "tests/emit/builder.hpp"

namespace tessera::test {

namespace {

Ref max_of(Builder& b, Ref x, Ref y) { return b.binary(BinaryOp::max, x, y); }
Ref mod(Builder& b, Ref x, int n) { return b.binary(BinaryOp::mod, x, b.i(n)); }
Ref div(Builder& b, Ref x, int n) { return b.binary(BinaryOp::div, x, b.i(n)); }

}  // namespace

ir::Program cast_sample() {
    Builder b("per_token_cast");
    const Ref tokens = b.parameter(b.scalar("tokens"));
    const int x = b.tensor("x", bf16, ir::Role::input, {tokens, b.l(1024)}, 16);
    const int y = b.tensor("y", e4m3, ir::Role::output, {tokens, b.l(1024)}, 16);
    const int sf = b.tensor("sf", f32, ir::Role::output, {tokens, b.l(8)});
    b.program.grid = {b.binary(BinaryOp::div, b.add(tokens, b.l(3)), b.l(4))};

    b.at("cast.cpp", 12);
    b.comment("x.block({4, 1024})");
    const Ref row = b.let("row", b.mul(b.block(), b.l(4)));
    const Ref col = b.let("col", b.cast(i64, b.mul(b.thread(), b.i(8))));
    const Ref at = b.let("x_at", b.add(b.mul(row, b.l(1024)), col));
    const int v = b.array("x_v", bf16, 2, 16, "bf16 [4, 1024] as (row 4 slots) (col 128 threads, 8 slots)");
    b.unrolled("r", 4, [&](Ref r) {
        const Ref in = b.less(b.add(row, b.cast(i64, r)), tokens);
        b.load(Builder::global(x, b.add(at, b.cast(i64, b.mul(r, b.i(1024)))), 8, in), v, b.mul(r, b.i(4)),
               b.constant(bf16, 0));
    });
    b.at("cast.cpp", 13);
    const int m = b.array("amax", f32, 1, 4, "f32 [4, 8]");
    b.unrolled("r", 4, [&](Ref r) {
        const auto word = [&](int i) { return b.unary(UnaryOp::abs, b.word(v, b.add(b.mul(r, b.i(4)), b.i(i)))); };
        const Ref two = b.let("pair", max_of(b, max_of(b, word(0), word(1)), max_of(b, word(2), word(3))));
        b.set(m, r, b.cast(f32, max_of(b, b.lane(two, 0), b.lane(two, 1))));
        for (const int mask : {8, 4, 2, 1}) b.set(m, r, max_of(b, b.word(m, r), b.shuffle(b.word(m, r), mask)));
        b.set(m, r, max_of(b, b.word(m, r), b.f(1e-4f)));
    });
    b.at("cast.cpp", 14);
    const Ref first = b.binary(BinaryOp::eq, mod(b, b.thread(), 16), b.i(0));
    b.unrolled("r", 4, [&](Ref r) {
        const Ref here = b.add(row, b.cast(i64, r));
        const Ref in = b.binary(BinaryOp::bit_and, first, b.less(here, tokens));
        const Ref offset = b.add(b.mul(here, b.l(8)), b.cast(i64, div(b, b.thread(), 16)));
        b.store(Builder::global(sf, offset, 1, in), {b.binary(BinaryOp::div, b.word(m, r), b.f(448))});
    });
    b.at("cast.cpp", 15);
    b.unrolled("r", 4, [&](Ref r) {
        const Ref inverse = b.let("inverse", b.binary(BinaryOp::div, b.f(448), b.word(m, r)));
        const auto scaled = [&](int i) {
            const Ref word = b.word(v, b.add(b.mul(r, b.i(4)), b.i(i / 2)));
            return b.cast(e4m3, b.mul(b.cast(f32, b.lane(word, i % 2)), inverse));
        };
        const Ref in = b.less(b.add(row, b.cast(i64, r)), tokens);
        b.store(Builder::global(y, b.add(at, b.cast(i64, b.mul(r, b.i(1024)))), 8, in),
                {b.pack({scaled(0), scaled(1), scaled(2), scaled(3)}),
                 b.pack({scaled(4), scaled(5), scaled(6), scaled(7)})});
    });
    return b.program;
}

ir::Program transpose_sample() {
    Builder b("transpose");
    b.program.threads = 64;
    const Ref m = b.parameter(b.scalar("m", i64, 8));
    const Ref n = b.parameter(b.scalar("n", i64, 8));
    const int x = b.tensor("x", u16, ir::Role::input, {m, n}, 16);
    const int y = b.tensor("y", u16, ir::Role::output, {n, m}, 16);
    const int tile = b.shared("tile", u16, {64, 64}, 0, {3, 3, 6});
    b.program.shared_bytes = 8192;
    const Ref tiles = b.let("tiles", b.binary(BinaryOp::div, b.add(n, b.l(63)), b.l(64)));
    b.program.grid = {b.binary(BinaryOp::div, b.add(m, b.l(63)), b.l(64)),
                      b.binary(BinaryOp::div, b.add(n, b.l(63)), b.l(64))};
    const Ref row = b.let("row", b.add(b.mul(b.binary(BinaryOp::div, b.block(), tiles), b.l(64)),
                                       b.cast(i64, b.mul(div(b, b.thread(), 8), b.i(8)))));
    const Ref col = b.let("col", b.add(b.mul(b.binary(BinaryOp::mod, b.block(), tiles), b.l(64)),
                                       b.cast(i64, b.mul(mod(b, b.thread(), 8), b.i(8)))));
    const int v = b.array("v", u16, 2, 32, "u16 [64, 64], 8 x 8 a thread");
    const auto swizzled = [&](Ref r, Ref c) {
        const Ref offset = b.add(b.mul(r, b.i(64)), c);
        const Ref named = b.let("plain", offset);
        const Ref high = b.binary(BinaryOp::bit_and, b.binary(BinaryOp::shr, named, b.i(9)), b.i(7));
        return b.binary(BinaryOp::bit_xor, named, b.binary(BinaryOp::shl, high, b.i(3)));
    };
    b.unrolled("r", 8, [&](Ref r) {
        const Ref here = b.add(row, b.cast(i64, r));
        const Ref in = b.binary(BinaryOp::bit_and, b.less(here, m), b.less(col, n));
        b.load(Builder::global(x, b.add(b.mul(here, n), col), 8, in), v, b.mul(r, b.i(4)), b.constant(u16, 0));
    });
    b.comment("the micro-tile's columns are the tile's rows");
    const Ref tile_row = b.let("tile_row", b.mul(mod(b, b.thread(), 8), b.i(8)));
    const Ref tile_col = b.let("tile_col", b.mul(div(b, b.thread(), 8), b.i(8)));
    for (int c = 0; c < 8; ++c) {
        std::vector<Ref> words;
        for (int r = 0; r < 8; r += 2)
            words.push_back(b.pack(
                {b.lane(b.word(v, b.i(4 * r + c / 2)), c % 2), b.lane(b.word(v, b.i(4 * r + 4 + c / 2)), c % 2)}));
        const Ref at = b.let("at", swizzled(c == 0 ? tile_row : b.add(tile_row, b.i(c)), tile_col));
        b.store(Builder::in_shared(tile, at, 8), words);
    }
    b.barrier();
    const int w = b.array("w", u16, 2, 4);
    b.unrolled("r", 8, [&](Ref r) {
        const Ref line = b.add(b.mul(r, b.i(8)), div(b, b.thread(), 8));
        b.load(Builder::in_shared(tile, swizzled(line, b.mul(mod(b, b.thread(), 8), b.i(8))), 8), w, b.i(0));
        std::vector<Ref> words;
        for (int i = 0; i < 4; ++i) words.push_back(b.word(w, b.i(i)));
        const Ref out = b.add(b.mul(b.binary(BinaryOp::mod, b.block(), tiles), b.l(64)), b.cast(i64, line));
        const Ref to = b.add(b.mul(b.binary(BinaryOp::div, b.block(), tiles), b.l(64)),
                             b.cast(i64, b.mul(mod(b, b.thread(), 8), b.i(8))));
        b.store(
            Builder::global(y, b.add(b.mul(out, m), to), 8, b.binary(BinaryOp::bit_and, b.less(out, n), b.less(to, m))),
            words);
    });
    return b.program;
}

ir::Program normalize_sample() {
    Builder b("normalize");
    b.program.threads = 32;
    const Ref rows = b.parameter(b.scalar("rows"));
    const Ref pitch = b.parameter(b.scalar("pitch", i64, 4));
    const Ref eps = b.parameter(b.scalar("eps", f32));
    const int x = b.tensor("x", f32, ir::Role::inout, {rows, b.l(4096)}, 16);
    b.program.tensors[0].axes[0].stride = pitch;
    b.program.grid = {rows};
    const int total = b.array("total", f32, 1, 1, "sum of squares");
    b.set(total, b.i(0), b.f(0));
    b.loop("step", b.l(0), b.l(4096), b.l(128), false, [&](Ref step) {
        const int v = b.array("v", f32, 1, 4);
        const Ref at = b.add(b.add(b.mul(b.block(), pitch), step), b.cast(i64, b.mul(b.thread(), b.i(4))));
        b.load(Builder::global(x, at, 4), v, b.i(0));
        b.unrolled("i", 4, [&](Ref i) {
            b.set(total, b.i(0), b.add(b.word(total, b.i(0)), b.mul(b.word(v, i), b.word(v, i))));
        });
    });
    for (const int mask : {16, 8, 4, 2, 1})
        b.set(total, b.i(0), b.add(b.word(total, b.i(0)), b.shuffle(b.word(total, b.i(0)), mask)));
    const Ref mean = b.binary(BinaryOp::div, b.word(total, b.i(0)), b.f(4096));
    const Ref scale = b.let("scale", b.unary(UnaryOp::rsqrt, b.add(mean, eps)));
    b.loop("step", b.l(0), b.l(4096), b.l(128), false, [&](Ref step) {
        const int v = b.array("v", f32, 1, 4);
        const Ref at = b.add(b.add(b.mul(b.block(), pitch), step), b.cast(i64, b.mul(b.thread(), b.i(4))));
        b.load(Builder::global(x, at, 4), v, b.i(0));
        std::vector<Ref> words;
        for (int i = 0; i < 4; ++i) words.push_back(b.mul(b.word(v, b.i(i)), scale));
        b.store(Builder::global(x, at, 4), words);
    });
    return b.program;
}

ir::Program packed_sample() {
    Builder b("packed");
    const Ref n = b.parameter(b.scalar("n", i64, 32));
    const auto tensor = [&](const char* name, Element type, ir::Role role) {
        return b.tensor(name, type, role, {n}, 16);
    };
    const int half = tensor("half", bf16, ir::Role::input), full = tensor("full", f32, ir::Role::inout);
    const int four = tensor("four", e2m1, ir::Role::inout), eight = tensor("eight", e4m3, ir::Role::output);
    const int twelve = tensor("twelve", e5m6, ir::Role::inout), wide = tensor("wide", bf16, ir::Role::output);
    b.program.grid = {b.binary(BinaryOp::div, n, b.l(4096))};
    const Ref first = b.let("first", b.mul(b.add(b.mul(b.block(), b.l(128)), b.cast(i64, b.thread())), b.l(32)));
    const Ref in = b.let("in", b.less(first, n));
    const Ref two = b.make(bf16, {2}, ir::Pack{{b.constant(bf16, 0x4000), b.constant(bf16, 0x4000)}});

    const int h = b.array("h", bf16, 2, 4, "8 bf16");
    b.load(Builder::global(half, first, 8, in), h, b.i(0), b.constant(bf16, 0));
    std::vector<Ref> codes;
    for (int i = 0; i < 8; ++i) codes.push_back(b.cast(e2m1, b.lane(b.mul(b.word(h, b.i(i / 2)), two), i % 2)));
    b.store(Builder::global(four, first, 8, in), {b.pack(codes)});

    const int x = b.array("x", f32, 1, 8, "8 f32"), code = b.array("code", e2m1, 4, 2, "8 e2m1");
    for (const int i : {0, 4}) b.load(Builder::global(full, b.add(first, b.l(i)), 4), x, b.i(i));
    const auto casts = [&](Element to, int from, int count) {
        std::vector<Ref> all;
        for (int i = from; i < from + count; ++i) all.push_back(b.cast(to, b.word(x, b.i(i))));
        return b.pack(all);
    };
    for (const int i : {0, 1}) b.set(code, b.i(i), casts(e2m1, 4 * i, 4));
    b.store(Builder::global(four, b.add(first, b.l(8)), 8), {b.word(code, b.i(0)), b.word(code, b.i(1))});
    b.store(Builder::global(twelve, first, 8, in),
            {casts(e5m6, 0, 2), casts(e5m6, 2, 2), casts(e5m6, 4, 2), casts(e5m6, 6, 2)});

    const int w = b.array("w", e2m1, 8, 1, "8 e2m1"), t = b.array("t", e5m6, 2, 8, "16 e5m6");
    b.load(Builder::global(four, b.add(first, b.l(16)), 8), w, b.i(0));
    const auto lane = [&](Element to, int i) { return b.cast(to, b.lane(b.word(w, b.i(0)), i)); };
    b.store(Builder::global(eight, first, 8), {b.pack({lane(e4m3, 0), lane(e4m3, 1), lane(e4m3, 2), lane(e4m3, 3)}),
                                               b.pack({lane(e4m3, 4), lane(e4m3, 5), lane(e4m3, 6), lane(e4m3, 7)})});
    b.store(Builder::global(wide, first, 2), {b.pack({lane(bf16, 2), lane(bf16, 3)})});
    b.store(Builder::global(full, first, 1), {lane(f32, 7)});
    b.load(Builder::global(twelve, b.add(first, b.l(16)), 16, in), t, b.i(0), b.constant(e5m6, 0x3c0));
    b.store(Builder::global(full, b.add(first, b.l(1)), 1), {b.cast(f32, b.lane(b.word(t, b.i(5)), 1))});
    return b.program;
}

ir::Program spelling_sample() {
    Builder b("spelling");
    const Ref n = b.parameter(b.scalar("float", i32));
    const int out = b.tensor("out", i32, ir::Role::output, {b.l(64)});
    const int flags = b.tensor("flags", boolean, ir::Role::output, {b.l(8)});
    const int lost = b.tensor("thread", f32, ir::Role::output, {b.l(8), b.l(2)});
    b.program.tensors[2].axes[0] = {b.l(8), b.l(8), 4, 1};
    b.program.grid = {b.l(1)};
    b.comment("two\nlines, the first ends in a backslash \\\n");
    b.at("C:\\kernels\\a \"b\".cpp", 7);
    const Ref x = b.let("value", b.sub(b.thread(), b.sub(n, b.i(3))));
    const Ref y = b.let("value", b.mul(b.add(x, b.i(-1)), b.add(x, b.add(n, b.i(2)))));
    const Ref z = b.let("for", b.sub(x, b.unary(UnaryOp::neg, b.i(-5))));
    const Ref bits = b.let("0 bits", b.bitcast(u32, b.binary(BinaryOp::div, b.f(0.1f), b.f(-3))));
    const Ref low =
        b.binary(BinaryOp::bit_and, b.binary(BinaryOp::shr, bits, b.constant(u32, 8)), b.constant(u32, 255));
    const Ref c = b.let("c", b.binary(BinaryOp::bit_or, b.binary(BinaryOp::bit_and, b.less(x, y), b.less(y, z)),
                                      b.unary(UnaryOp::bit_not, b.less(b.i(0), n))));
    const Ref wide = b.let("wide", b.add(b.mul(b.cast(i64, b.add(x, y)), b.l(1ll << 40)), b.cast(i64, z)));
    b.store(Builder::global(out, b.l(0), 1), {b.select(c, b.cast(i32, wide), b.bitcast(i32, low))});
    b.store(Builder::global(out, b.l(1), 1), {b.i(-2147483647 - 1)});
    b.store(Builder::global(flags, b.l(3), 1), {c});
    const float inf = std::bit_cast<float>(0x7f800000u);
    b.unrolled("out", 1, [&](Ref first) {
        b.unrolled("out", 1, [&](Ref second) {
            const Ref offset = b.cast(i64, b.add(first, second));
            b.store(Builder::global(lost, offset, 1, c),
                    {b.binary(BinaryOp::min, b.f(inf), b.sub(b.f(0.5f), b.sub(b.f(1), b.f(-0.0f))))});
        });
    });
    b.unrolled("out", 1, [&](Ref i) { b.store(Builder::global(out, b.cast(i64, i), 1), {b.sub(z, i)}); });
    return b.program;
}

}  // namespace tessera::test
