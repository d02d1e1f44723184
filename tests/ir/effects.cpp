#include "dsl/ir/effects.hpp"

#include <catch2/catch.hpp>

#include "dsl/ir/uniform.hpp"
#include "tests/ir/sample.hpp"

using namespace tessera;
using namespace tessera::ir;
using namespace tessera::ir::sample;

namespace {

constexpr MemoryId x{Space::global, 0}, y{Space::global, 1}, tile{Space::shared, 0};

using Memories = std::vector<MemoryId>;
using Ids = std::vector<int>;

void check(const Effects& found, const Memories& memories, const Ids& arrays, const Ids& variables, const Ids& locals) {
    CHECK(found.memories == memories);
    CHECK(found.arrays == arrays);
    CHECK(found.variables == variables);
    CHECK(found.locals == locals);
}

}  // namespace

TEST_CASE("recorded statements read what they bind and write what they name") {
    const Recorded s;
    const Body& b = s.p.body;
    check(reads_of(b[0]), {x}, {}, {}, {});  // %x = load x
    check(writes_of(b[0]), {}, {}, {}, {});
    check(reads_of(b[1]), {}, {}, {}, {});    // %v1 = f32(%x): the tile is in registers
    check(writes_of(b[3]), {}, {}, {0}, {});  // s = %sum
    check(reads_of(b[3]), {}, {}, {}, {});
    check(reads_of(b[4]), {}, {}, {0}, {});  // the loop reads and writes s
    check(writes_of(b[4]), {}, {}, {0}, {});
    check(reads_of(b[5]), {}, {}, {0}, {});
    check(writes_of(b[6]), {y}, {}, {}, {});
    CHECK(reads_of(b[6]).empty());
}

TEST_CASE("lowered statements read and write memories, register arrays and locals") {
    const Lowered s;
    const Body& b = s.p.body;
    check(writes_of(b[0]), {}, {}, {}, {0});
    check(writes_of(b[3]), {}, {0}, {}, {});     // declare xs
    check(reads_of(b[4]), {x}, {}, {}, {0, 1});  // xs[0] = load x
    check(writes_of(b[4]), {}, {0}, {}, {});
    check(reads_of(b[5]), {}, {0}, {}, {});  // the loop over xs
    check(writes_of(b[5]), {}, {0}, {}, {});
    check(reads_of(b[6]), {}, {0}, {}, {1});  // store xs to t
    check(writes_of(b[6]), {tile}, {}, {}, {});
    CHECK(reads_of(b[7]).empty());
    CHECK(writes_of(b[7]).empty());
    check(reads_of(b[9]), {tile}, {}, {}, {1});  // ts[0] = load t
    check(writes_of(b[10]), {y}, {}, {}, {});
}

TEST_CASE("a loop reads its bounds") {
    Lowered s;
    For loop{0, "j", s.row, s.tokens, s.wide(1), false, {}};
    check(reads_of(s.statement(loop)), {}, {}, {}, {0});
    CHECK(writes_of(s.statement(loop)).empty());
}

TEST_CASE("effects unite and meet") {
    Effects a{{x}, {2}, {}, {}}, b{{x, tile}, {1}, {0}, {5}};
    CHECK(a.meets(b));
    CHECK(a.touches(x));
    CHECK_FALSE(a.touches(tile));
    CHECK_FALSE(a.touches_space(Space::shared));
    CHECK(b.touches_space(Space::shared));
    CHECK_FALSE(Effects{{y}, {2}, {}, {}}.meets(b));
    CHECK(Effects{{}, {}, {}, {5}}.meets(b));
    CHECK(Effects{{}, {}, {0}, {}}.meets(b));
    CHECK(Effects{{}, {1}, {}, {}}.meets(b));
    a.add(b);
    CHECK(a == Effects{{x, tile}, {1, 2}, {0}, {5}});
}

TEST_CASE("what a thread index reaches is not uniform") {
    Lowered s;
    const Uniformity u(s.p);
    CHECK(u.uniform(s.row));
    CHECK(u.uniform(s.inside));
    CHECK_FALSE(u.uniform(s.column));
    CHECK_FALSE(u.uniform(s.offset));
    CHECK_FALSE(u.uniform(s.first<StoreVector>().words[0]));
    CHECK(u.uniform_loop(0));
}

TEST_CASE("a word carried round a loop is judged by all its writers") {
    Lowered s;
    s.p.arrays = {{"a", i64, 1, 1, ""}, {"b", i64, 1, 1, ""}};
    s.p.body.resize(2);
    const Ref zero = s.narrow(0), a = s.node(i64, {}, Register{0, zero}), b = s.node(i64, {}, Register{1, zero});
    const auto turn = [&](bool by_thread) {
        Lowered t = s;
        For loop{0, "j", s.wide(0), s.tokens, s.wide(1), false, {}};
        loop.body.push_back(s.statement(Set{0, zero, b}));  // reads what the line below wrote a turn before
        loop.body.push_back(s.statement(Set{1, zero, by_thread ? s.cast(i64, s.column) : s.row}));
        t.p.body.push_back(s.statement(loop));
        return t;
    };
    const Lowered uniform = turn(false), divergent = turn(true);
    CHECK(Uniformity(uniform.p).uniform(a));
    CHECK_FALSE(Uniformity(divergent.p).uniform(a));
}

TEST_CASE("what is written in a loop of unequal turns is not uniform") {
    Lowered s;
    s.p.arrays = {{"a", i64, 1, 1, ""}};
    s.p.body.resize(2);
    const Ref zero = s.narrow(0), a = s.node(i64, {}, Register{0, zero});
    For loop{0, "j", s.wide(0), s.cast(i64, s.column), s.wide(1), false, {}};
    loop.body.push_back(s.statement(Set{0, zero, s.row}));
    s.p.body.push_back(s.statement(loop));
    const Uniformity u(s.p);
    CHECK_FALSE(u.uniform_loop(0));
    CHECK_FALSE(u.uniform(a));
}
