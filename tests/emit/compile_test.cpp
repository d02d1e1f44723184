#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "dsl/emit/c_types.hpp"
#include "dsl/emit/cuda.hpp"
#include "runtime/nvrtc/find.hpp"
#include "runtime/nvrtc/nvrtc.hpp"
#include "tests/emit/builder.hpp"
#include "tests/emit/samples.hpp"

// Everything the emitter can write is compiled for both architectures; no device is needed.

using namespace tessera;
using test::BinaryOp;
using test::Builder;
using test::Ref;
using test::UnaryOp;

namespace {

constexpr Element moved[] = {f64, f32, tf32, f16, bf16, e5m2, e4m3, e5m6, e2m1,   ue8m0,
                             i8,  i16, i32,  i64, u8,   u16,  u32,  u64,  boolean};
constexpr Element computed[] = {f64, f32, f16, bf16, i8, i16, i32, i64, u8, u16, u32, u64};

bool have_nvrtc() {
    if (runtime::nvrtc_search().path) return true;
    WARN("libnvrtc was not found, so nothing was compiled: " + runtime::nvrtc_search().problem);
    return false;
}

/// Compiles for both targets and looks for spills.
void expect_compiles(const ir::Program& program, const Target& target) {
    const std::string text = emit::cuda_text(program, target);
    const std::vector<std::string> options = {std::string("--gpu-architecture=") + target.arch(), "--std=c++17",
                                              "--fmad=false", "--ptxas-options=-v"};
    const auto outcome = runtime::Nvrtc::loaded().compile(text, program.name + ".cu", options);
    INFO(program.name << " for " << target.arch() << "\n" << text << "\n" << outcome.log);
    REQUIRE(outcome.ok);
    CHECK(outcome.log.find("0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads") != std::string::npos);
    CHECK(outcome.log.find("warning") == std::string::npos);
    CHECK(!outcome.cubin.empty());
}

void expect_compiles(ir::Program (*make)(const Target&)) {
    for (const Target& target : {Target::h200(), Target::b200()}) expect_compiles(make(target), target);
}

/// Loads of every width that the element and the target have, with and without a predicate, from `role` memory, kept in
/// the cache and not, or, if `shared`, through shared memory, into full words and into words of one element; each is
/// stored again.
ir::Program moves(Element type, const Target& target) {
    Builder b(std::string("moves_") + name_of(type));
    const Ref n = b.parameter(b.scalar("n"));
    const int x = b.tensor("x", type, ir::Role::input, {n}, 32), z = b.tensor("z", type, ir::Role::inout, {n}, 32);
    const int y = b.tensor("y", type, ir::Role::output, {n}, 32);
    const int tile = b.shared("tile", type, {4096}, 0);
    b.program.shared_bytes = 32768;
    b.program.grid = {n};
    const int bits = bits_of(type), full = std::max(1, 32 / register_bits_of(type)), least = packed_elements_of(type);
    const Ref in = b.let("in", b.less(b.block(), n));
    const int most = type == e5m6 ? 32 : target.vector_bytes() * 8 / bits;
    for (int lanes = least; lanes <= most; lanes *= 2) {
        const int bytes = lanes * bits / 8 / (type == e5m6 ? 3 : 1);
        for (int pack = std::min(full, lanes); pack >= (type == e2m1 ? 2 : 1); pack /= 2)
            for (const Ref predicate : {Ref{nullptr}, in})
                for (const int kind : {0, 1, 2, 3, 4}) {
                    const int source = kind % 3;
                    if (source == 2 && bytes > 16) continue;
                    const int v = b.array("v", type, pack, lanes / pack);
                    const Ref at = b.mul(b.block(), b.l(lanes)), here = b.mul(b.thread(), b.i(lanes));
                    ir::Access from = source == 2 ? Builder::in_shared(tile, here, lanes, predicate)
                                                  : Builder::global(source == 0 ? x : z, at, lanes, predicate);
                    if (kind >= 3) from.cache = ir::Cache::kept;
                    b.load(from, v, b.i(0), predicate ? b.constant(type, source == 0 ? 0 : 1) : nullptr);
                    std::vector<Ref> words;
                    for (int i = 0; i < lanes / pack; ++i) words.push_back(b.word(v, b.i(i)));
                    b.store(source == 0 && bytes <= 16 ? Builder::in_shared(tile, here, lanes, predicate)
                                                       : Builder::global(source == 1 ? z : y, at, lanes, predicate),
                            words);
                }
    }
    return b.program;
}

/// Every element type cast to `to`, alone and packed.
ir::Program casts(Element to) {
    Builder b(std::string("casts_to_") + name_of(to));
    const Ref n = b.parameter(b.scalar("n"));
    const int y = b.tensor("y", to, ir::Role::output, {n}, 32);
    b.program.grid = {n};
    int place = 0;
    for (const Element from : moved) {
        const int x = b.tensor(std::string("from_") + name_of(from), from, ir::Role::input, {n}, 32);
        const int per_word = std::max(1, 32 / register_bits_of(from));
        const int v = b.array("v", from, per_word, 8 / per_word);
        const int step = from == e5m6 ? 8 : std::min(8, 16 * 8 / bits_of(from));
        for (int i = 0; i < 8; i += step)
            b.load(Builder::global(x, b.add(b.mul(b.block(), b.l(8)), b.l(i)), step), v, b.i(i / per_word));
        const auto element = [&](int i) {
            const Ref word = b.word(v, b.i(i / per_word));
            return b.cast(to, per_word == 1 ? word : b.lane(word, i % per_word));
        };
        const auto out = [&](int lanes) {
            const Ref at = b.add(b.mul(b.block(), b.l(4096)), b.l(16 * place++));
            return Builder::global(y, at, lanes);
        };
        if (to == e5m6) {
            std::vector<Ref> alone, pairs;
            for (int i = 0; i < 8; ++i) alone.push_back(element(i));
            for (int i = 0; i < 8; i += 2) pairs.push_back(b.pack({element(i), element(i + 1)}));
            b.store(out(8), alone);
            b.store(out(8), pairs);
            continue;
        }
        for (int i = 0; i < 4; ++i)
            b.store(out(packed_elements_of(to)), {to == e2m1 ? b.pack({element(i), b.constant(e2m1, 7)}) : element(i)});
        for (int lanes = 32 / bits_of(to); lanes > 1; lanes /= 2) {
            std::vector<Ref> all;
            for (int i = 0; i < lanes; ++i) all.push_back(element(i));
            b.store(out(lanes), {b.pack(all)});
            if (per_word == lanes) b.store(out(lanes), {b.make(to, {lanes}, ir::Cast{b.word(v, b.i(0))})});
        }
    }
    return b.program;
}

bool has_operation(BinaryOp op, Element type) {
    const bool bits = op == BinaryOp::bit_and || op == BinaryOp::bit_or || op == BinaryOp::bit_xor;
    const bool whole = bits || op == BinaryOp::mod || op == BinaryOp::shl || op == BinaryOp::shr;
    if (op == BinaryOp::max_magnitude) return type == f16 || type == bf16;
    if (op == BinaryOp::min_nan || op == BinaryOp::max_nan) return type == f16 || type == bf16 || type == f32;
    return op == BinaryOp::div_bounded ? type == f32 : !whole || is_integer(type);
}

/// All that can be done with values of one type, alone and packed.
ir::Program arithmetic(Element type) {
    Builder b(std::string("arithmetic_") + name_of(type));
    const Ref n = b.parameter(b.scalar("n"));
    const int x = b.tensor("x", type, ir::Role::input, {n}, 32), y = b.tensor("y", type, ir::Role::output, {n}, 32);
    const int truth = b.tensor("truth", boolean, ir::Role::output, {n}, 32);
    b.program.grid = {n};
    const int lanes = bits_of(type) >= 32 ? 1 : 32 / bits_of(type);
    const int v = b.array("v", type, lanes, 2);
    b.load(Builder::global(x, b.block(), 2 * lanes), v, b.i(0));
    const Ref p = b.let("p", b.word(v, b.i(0))), q = b.let("q", b.shuffle(b.word(v, b.i(1)), 4));
    const Ref a = lanes == 1 ? p : b.lane(p, 1), c = lanes == 1 ? q : b.lane(q, 0);
    int place = 0;
    const auto out = [&](int tensor, int count) {
        return Builder::global(tensor, b.add(b.mul(b.block(), b.l(4096)), b.l(16 * place++)), count);
    };
    for (int code = 0; code <= static_cast<int>(BinaryOp::ge); ++code) {
        const auto op = static_cast<BinaryOp>(code);
        if (!has_operation(op, type)) continue;
        if (op >= BinaryOp::eq) {
            const Ref t = b.binary(op, a, c);
            b.store(out(truth, 1), {b.binary(BinaryOp::bit_or, b.shuffle(t, 1), b.unary(UnaryOp::bit_not, t))});
            if (type == bf16 || type == f16) {
                const auto one = [&](int lane) { return b.cast(type, b.binary(op, b.lane(p, lane), b.lane(q, lane))); };
                b.store(out(y, 2), {b.pack({one(0), one(1)})});
            }
            if (lanes > 1) b.store(out(y, lanes), {b.select(b.make(boolean, p->shape, ir::Binary{op, p, q}), q, p)});
            continue;
        }
        b.store(out(y, 1), {b.binary(op, a, c)});
        if (lanes > 1) b.store(out(y, lanes), {b.binary(op, p, q)});
    }
    if (type == f32) {
        b.store(out(y, 1), {b.make(f32, {}, ir::Fma{a, c, b.unary(UnaryOp::exp, a)})});
        b.store(out(y, 1), {b.make(f32, {}, ir::Fma{a, b.unary(UnaryOp::sqrt, c), b.unary(UnaryOp::log1p, a)})});
    }
    for (const ir::ReduceOp op : {ir::ReduceOp::sum, ir::ReduceOp::max, ir::ReduceOp::min, ir::ReduceOp::bit_or})
        if (type == i32 || type == u32) b.store(out(y, 1), {b.make(type, {}, ir::WarpReduce{op, a})});
    for (const UnaryOp op : {UnaryOp::neg, UnaryOp::abs, UnaryOp::bit_not, UnaryOp::rsqrt}) {
        if ((op == UnaryOp::bit_not && is_float(type)) || (op == UnaryOp::rsqrt && !is_float(type))) continue;
        b.store(out(y, 1), {b.unary(op, a)});
        if (lanes > 1) b.store(out(y, lanes), {b.unary(op, p)});
    }
    return b.program;
}

/// Codes looked up in tables of each kind, in words and alone, with signs and without.
ir::Program lookups() {
    Builder b("lookups");
    const Ref n = b.parameter(b.scalar("n"));
    const int x = b.tensor("x", e2m1, ir::Role::input, {n}, 32);
    b.program.grid = {n};
    const int v = b.array("v", e2m1, 8, 1);
    b.load(Builder::global(x, b.mul(b.block(), b.l(8)), 8), v, b.i(0));
    const Ref codes = b.word(v, b.i(0)), even = b.let("even", b.less(b.thread(), b.i(7)));
    for (const Element type : {e2m1, e4m3, u8}) {
        const int each = 32 / bits_of(type), words = 8 / each;
        const int t = b.tensor(std::string("t_") + name_of(type), type, ir::Role::input, {n}, 32);
        const int y = b.tensor(std::string("y_") + name_of(type), type, ir::Role::output, {n}, 32);
        const int table = b.array("table", type, each, words);
        b.load(Builder::global(t, b.l(0), 8), table, b.i(0));
        std::vector<Ref> entries;
        for (int i = 0; i < words; ++i) entries.push_back(b.word(table, b.i(i)));
        for (const Ref signs : {Ref{nullptr}, even}) {
            if (signs && type == u8) continue;
            std::vector<Ref> by_words, alone;
            for (int i = 0; i < 8; i += each) {
                std::vector<Ref> some, elements;
                for (int j = i; j < i + each; ++j) {
                    some.push_back(b.lane(codes, j));
                    elements.push_back(b.make(type, {}, ir::Lookup{some.back(), entries, signs}));
                }
                const Ref index = each == 8 ? codes : b.pack(some);
                by_words.push_back(b.make(type, {each}, ir::Lookup{index, entries, signs}));
                alone.push_back(b.pack(elements));
            }
            b.store(Builder::global(y, b.mul(b.block(), b.l(8)), 8), by_words);
            b.store(Builder::global(y, b.mul(b.block(), b.l(16)), 8), alone);
        }
    }
    return b.program;
}

/// Every pair of types of one width, and words to scalars and back.
ir::Program bitcasts(int bits) {
    Builder b("bitcasts_" + std::to_string(bits));
    const Ref n = b.parameter(b.scalar("n"));
    b.program.grid = {n};
    for (const Element from : moved) {
        if (bits_of(from) != bits) continue;
        const int x = b.tensor(std::string("from_") + name_of(from), from, ir::Role::input, {n}, 32);
        const int pack = std::max(1, 32 / bits);
        const int v = b.array("v", from, pack, 1);
        b.load(Builder::global(x, b.block(), pack), v, b.i(0));
        const Ref word = b.word(v, b.i(0));
        for (const Element to : moved) {
            if (bits_of(to) != bits) continue;
            const int y = b.tensor(std::string("to_") + name_of(to), to, ir::Role::output, {n}, 32);
            b.store(Builder::global(y, b.l(64), 1), {b.bitcast(to, pack == 1 ? word : b.lane(word, pack - 1))});
            if (pack > 1) {
                const Ref whole = b.bitcast(f32, word);
                b.store(Builder::global(y, b.l(0), pack), {b.bitcast(to, whole, {pack})});
                b.store(Builder::global(y, b.l(8), pack), {b.bitcast(to, word, {pack})});
            }
        }
    }
    return b.program;
}

}  // namespace

TEST_CASE("compiles: the samples") {
    if (!have_nvrtc()) return;
    expect_compiles([](const Target&) { return test::cast_sample(); });
    expect_compiles([](const Target&) { return test::transpose_sample(); });
    expect_compiles([](const Target&) { return test::normalize_sample(); });
    expect_compiles([](const Target&) { return test::packed_sample(); });
    expect_compiles([](const Target&) { return test::spelling_sample(); });
}

TEST_CASE("compiles: every element type, every width, from every memory") {
    if (!have_nvrtc()) return;
    for (const Element type : moved)
        for (const Target& target : {Target::h200(), Target::b200()}) expect_compiles(moves(type, target), target);
}

TEST_CASE("compiles: every cast") {
    if (!have_nvrtc()) return;
    for (const Element to : moved)
        for (const Target& target : {Target::h200(), Target::b200()}) expect_compiles(casts(to), target);
}

TEST_CASE("compiles: every operation on every type") {
    if (!have_nvrtc()) return;
    for (const Element type : computed)
        for (const Target& target : {Target::h200(), Target::b200()}) expect_compiles(arithmetic(type), target);
}

TEST_CASE("compiles: every bitcast") {
    if (!have_nvrtc()) return;
    for (const int bits : {8, 16, 32, 64})
        for (const Target& target : {Target::h200(), Target::b200()}) expect_compiles(bitcasts(bits), target);
}

TEST_CASE("compiles: tables of codes") {
    if (!have_nvrtc()) return;
    for (const Target& target : {Target::h200(), Target::b200()}) expect_compiles(lookups(), target);
}
