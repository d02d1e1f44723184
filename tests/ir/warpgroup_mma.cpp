#include "dsl/ir/effects.hpp"
#include "dsl/ir/equal.hpp"
#include "dsl/ir/print.hpp"
#include "dsl/ir/tensor_core.hpp"
#include "tests/ir/verify_support.hpp"

// Products of operands in shared memory, in both stages.

using namespace tessera;
using namespace tessera::ir;
using namespace tessera::ir::sample;

namespace {

constexpr Swizzle line_of_bf16{3, 3, 3};

/// The recorded sample with a product of a piece of a shared tile.
struct Multiplying : Recorded {
    int tile;
    Ref a, b, c;
    Multiplying() {
        p.shared.push_back({"weights", bf16, {8, 64}, line_of_bf16, line(4), -1});
        tile = static_cast<int>(p.shared.size()) - 1;
        a = node(bf16, {64, 64}, Broadcast{constant(bf16, 1)});
        const View view{Space::shared, tile, {{wide(0), 8, false}, {wide(0), 64, false}}};
        b = bind(p.body, node(bf16, {8, 64}, Load{view, constant(bf16, 0), {}}));
        c = node(f32, {64, 8}, Broadcast{real(0)});
        put(Mma{a, b, c, 0, false, true});
    }
    void put(Mma op) {
        if (p.body.back().as<Bind>()->value->as<Mma>()) p.body.pop_back();
        p.body.push_back(statement(Bind{node(f32, {op.a->shape[0], op.b->shape[0]}, op)}));
    }
};

/// The lowered sample with one instruction of four warps, a in registers, b in a shared tile.
struct Starting : Lowered {
    int sums, words, tile;
    std::size_t fence;  // its place in the body; then come the product and the wait
    Starting() {
        p.arrays.push_back({"sums", f32, 1, 8, ""});
        p.arrays.push_back({"words", bf16, 2, 4, ""});
        sums = static_cast<int>(p.arrays.size()) - 2, words = sums + 1;
        p.shared.push_back({"weights", bf16, {16, 64}, line_of_bf16, line(4), 2048});
        p.shared_bytes = 4096;
        tile = static_cast<int>(p.shared.size()) - 1;
        p.body.push_back(statement(Declare{sums}));
        p.body.push_back(statement(Declare{words}));
        fence = p.body.size();
        p.body.push_back(statement(MmaFence{{sums, words}}));
        WarpgroupMma product;
        product.array = sums, product.into = narrow(0), product.rows_apart = 4, product.columns = 16;
        for (int i = 0; i < 4; ++i) product.a.push_back(node(bf16, {2}, Register{words, narrow(i)}));
        product.b_tile = tile, product.b_offset = narrow(16);
        p.body.push_back(statement(product));
        p.body.push_back(statement(MmaWait{{sums, words}}));
    }
    WarpgroupMma& product() { return *p.body[fence + 1].as<WarpgroupMma>(); }
    void insert(std::size_t where, StatementOp op) {
        p.body.insert(p.body.begin() + static_cast<std::ptrdiff_t>(where), statement(std::move(op)));
    }
    void in_registers_no_more() { product().a.clear(), product().a_tile = tile, product().a_offset = narrow(0); }
};

}  // namespace

TEST_CASE("tensor cores read rows of 32, 64 and 128 bytes under a swizzle that fits them") {
    const auto fits = [](Element type, Shape shape, Swizzle swizzle) {
        return fits_tensor_cores({"t", type, shape, swizzle, {}, -1});
    };
    CHECK(fits(bf16, {8, 64}, {3, 3, 3}));
    CHECK(fits(bf16, {8, 32}, {2, 3, 3}));
    CHECK(fits(bf16, {8, 16}, {1, 3, 3}));
    CHECK(fits(tf32, {3, 8, 32}, {3, 2, 3}));
    CHECK(fits(e4m3, {8, 128}, {3, 4, 3}));
    CHECK_FALSE(fits(bf16, {8, 64}, {}));
    CHECK_FALSE(fits(bf16, {8, 64}, {2, 3, 3}));
    CHECK_FALSE(fits(bf16, {8, 64}, {3, 2, 3}));
    CHECK_FALSE(fits(bf16, {8, 64}, {3, 3, 4}));
    CHECK_FALSE(fits(bf16, {12, 64}, {3, 3, 3}));
    CHECK_FALSE(fits(bf16, {8, 128}, {3, 3, 3}));
    CHECK_FALSE(fits(f32, {8, 32}, {3, 2, 3}));
}

TEST_CASE("products in place print") {
    Multiplying recorded;
    CHECK(verdict(recorded.p) == "");
    CHECK_THAT(print_line(recorded.p, recorded.p.body.back()), Catch::EndsWith(", b in place)"));
    Starting s;
    CHECK(verdict(s.p) == "");
    const auto text = [&](std::size_t i) { return print_line(s.p, s.p.body[s.fence + i]); };
    CHECK(text(0) == "fence for mma: sums, words");
    CHECK(text(1) ==
          "start mma 64 x 16 sums[0, rows 4 apart] += (words[0], words[1], words[2], words[3]) * weights at 16");
    CHECK(text(2) == "wait for mma: sums, words");
    s.in_registers_no_more();
    CHECK(verdict(s.p) == "");
    CHECK(text(1) == "start mma 64 x 16 sums[0, rows 4 apart] += weights at 0 * weights at 16");
    CHECK(print_line(s.p, s.statement(ProxyFence{})) == "fence of stores for the copy engine and tensor cores");
}

TEST_CASE("products in place read and write what they name") {
    Starting s;
    const Statement& product = s.p.body[s.fence + 1];
    CHECK(reads_of(product).arrays == std::vector<int>{s.sums, s.words});
    CHECK(reads_of(product).memories == std::vector<MemoryId>{{Space::shared, s.tile}});
    CHECK(writes_of(product).arrays == std::vector<int>{s.sums});
    CHECK(writes_of(product).memories.empty());
    for (const StatementOp& op :
         {StatementOp(MmaFence{{s.sums}}), StatementOp(MmaWait{{s.sums}}), StatementOp(ProxyFence{})}) {
        CHECK(reads_of(s.statement(op)).empty());
        CHECK(writes_of(s.statement(op)).empty());
    }
}

TEST_CASE("what differs in a product in place is not equal") {
    const auto changed = [](void (*change)(Starting&)) {
        Starting a, b;
        CHECK(equal(a.p, b.p));
        change(b);
        return !equal(a.p, b.p);
    };
    CHECK(changed([](Starting& s) { s.product().rows_apart = 5; }));
    CHECK(changed([](Starting& s) { s.product().columns = 8; }));
    CHECK(changed([](Starting& s) { s.product().b_tile = 0; }));
    CHECK(changed([](Starting& s) { s.product().b_offset = s.narrow(0); }));
    CHECK(changed([](Starting& s) { s.product().into = s.narrow(1); }));
    CHECK(changed([](Starting& s) { s.in_registers_no_more(); }));
    CHECK(changed([](Starting& s) { s.p.body[s.fence].as<MmaFence>()->arrays.pop_back(); }));
    CHECK(changed([](Starting& s) { s.p.body[s.fence + 2].as<MmaWait>()->arrays.pop_back(); }));
    Multiplying a, b;
    CHECK(equal(a.p, b.p));
    b.put({b.a, b.b, b.c, 0, false, false});
    CHECK_FALSE(equal(a.p, b.p));
}

TEST_CASE("recorded products in place are of loads that tensor cores can make") {
    using M = Multiplying;
    const Breach<M> breaches[] = {
        {"in-place", "loaded from a shared tile", [](M& s) { s.p.shared[s.tile].swizzle = {}; }},
        {"in-place", "loaded from a shared tile", [](M& s) { s.put({s.a, s.b, s.c, 0, true, true}); }},
        {"in-place", "read b so, too", [](M& s) { s.put({s.a, s.b, s.c, 0, true, false}); }},
        {"result-shape", "have 64 rows",
         [](M& s) {
             const Ref a = s.node(bf16, {32, 64}, Broadcast{s.constant(bf16, 1)});
             s.put({a, s.b, s.node(f32, {32, 8}, Broadcast{s.real(0)}), 0, false, true});
         }},
    };
    check_breaches(breaches);
}

TEST_CASE("lowered products in place are instructions that there are") {
    using S = Starting;
    const Breach<S> breaches[] = {
        {"mma", "8 to 256 columns", [](S& s) { s.product().columns = 12; }},
        {"mma", "8 to 256 columns", [](S& s) { s.product().columns = 264; }},
        {"register-range", "past its array", [](S& s) { s.product().rows_apart = 5; }},
        {"operand-type", "added to f32", [](S& s) { s.p.arrays[s.sums].type = i32; }},
        {"mma", "multiple of four warps", [](S& s) { s.p.threads = 64; }},
        {"mma", "four words in registers or", [](S& s) { s.product().a.pop_back(); }},
        {"mma", "four words in registers or", [](S& s) { s.product().a_tile = s.tile; }},
        {"in-place", "rows or a swizzle", [](S& s) { s.p.shared[s.tile].swizzle.shift = 4; }},
        {"align", "8 rows' bytes", [](S& s) { s.p.shared[s.tile].byte_offset = 2176, s.p.shared_bytes = 8192; }},
        {"operand-missing", "an offset", [](S& s) { s.product().b_offset = nullptr; }},
        {"offset-type", "is i32", [](S& s) { s.product().b_offset = s.wide(0); }},
        {"operand-type", "words of one type", [](S& s) { s.product().a[1] = s.narrow(1); }},
        {"mma", "are registers",
         [](S& s) { s.product().a[1] = s.node(bf16, {2}, Pack{{s.constant(bf16, 1), s.constant(bf16, 1)}}); }},
    };
    check_breaches(breaches);
}

TEST_CASE("what products under way use is frozen from the fence to the wait") {
    using S = Starting;
    const Breach<S> breaches[] = {
        {"mma-fence", "without a fence", [](S& s) { s.p.body.erase(s.p.body.begin() + static_cast<int>(s.fence)); }},
        {"mma-fence", "without a fence", [](S& s) { s.p.body[s.fence].as<MmaFence>()->arrays.pop_back(); }},
        {"mma-fence", "without a fence", [](S& s) { s.insert(s.fence + 1, Set{s.sums, s.narrow(0), s.real(0)}); }},
        {"mma-frozen", "written to", [](S& s) { s.insert(s.fence + 2, Set{s.sums, s.narrow(0), s.real(0)}); }},
        {"mma-frozen", "written to",
         [](S& s) {
             const Ref one = s.constant(bf16, 1);
             s.insert(s.fence + 2, Set{s.words, s.narrow(0), s.node(bf16, {2}, Pack{{one, one}})});
         }},
        {"mma-frozen", "are read",
         [](S& s) {
             s.p.arrays.push_back({"copy", f32, 1, 1, ""});
             const int copy = static_cast<int>(s.p.arrays.size()) - 1;
             s.insert(s.fence, Declare{copy});
             s.insert(s.fence + 3, Set{copy, s.narrow(0), s.node(f32, {}, Register{s.sums, s.narrow(0)})});
         }},
        {"mma-wait", "does not name", [](S& s) { s.p.body[s.fence + 2].as<MmaWait>()->arrays.pop_back(); }},
        {"mma-wait", "when the program ends", [](S& s) { s.p.body.pop_back(); }},
    };
    check_breaches(breaches);
}

TEST_CASE("a turn of a loop comes after the one before") {
    Starting s;
    Body inner(s.p.body.begin() + static_cast<std::ptrdiff_t>(s.fence), s.p.body.end());
    s.p.body.resize(s.fence);
    s.p.body.push_back(s.statement(MmaFence{{s.sums, s.words}}));
    s.p.body.push_back(s.statement(For{s.p.loops++, "i", s.wide(0), s.wide(3), s.wide(1), false, {}}));
    Body& body = s.p.body.back().as<For>()->body;
    body.push_back(inner[1]);
    body.push_back(inner[2]);
    CHECK(verdict(s.p) == "");
    body.push_back(s.statement(Set{s.sums, s.narrow(0), s.real(0)}));
    CHECK_THAT(verdict(s.p), Catch::Contains("rule \"mma-fence\""));
    body.pop_back();
    body.pop_back();
    CHECK_THAT(verdict(s.p), Catch::Contains("rule \"mma-wait\""));
}
