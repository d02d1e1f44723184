#include <catch2/catch.hpp>

#include "builder.hpp"
#include "dsl/base/error.hpp"

// Reports: the first of all workers' offenders becomes the launch's error, after all blocks have run.

using namespace host_test;

namespace {

constexpr int threads = 64, blocks = 200;

/// Every thread writes its number; those of the given blocks' odd threads are reported, `rule` by `rule`.
Builder reporting(std::int64_t from_block, std::vector<int> rules) {
    Builder b("odd", threads);
    b.grid({b.i64c(blocks)});
    const int ids = b.vector_tensor("ids", i32, b.i64c(threads * blocks));
    Place place;
    place.file = "odd.cpp", place.line = 12;
    b.program->rules = {{"an id is even", ids, true, i32, place}, {"an id is small", ids, true, i32, place}};
    const Ref at = b.add(b.mul(b.block(), b.i64c(threads)), b.thread64());
    const Ref odd = b.op(BinaryOp::eq, b.op(BinaryOp::bit_and, b.thread(), b.i32c(1)), b.i32c(1));
    const Ref bad = b.both(odd, b.op(BinaryOp::ge, b.block(), b.i64c(from_block)));
    for (const int rule : rules)
        b.put(ir::ReportElement{rule, b.cast(u64, at), bad, b.mul(at, b.i64c(-3))}, Here::current());
    b.store(global(ids, at), {b.cast(i32, at)});
    return b;
}

}  // namespace

TEST_CASE("the first offender is reported, whatever the workers' order", "[host]") {
    const Builder b = reporting(70, {1, 0});
    for (const int workers : {1, 2, 8})
        for (const bool check : {true, false}) {
            std::vector<std::int32_t> ids(threads * blocks, -1);
            std::string said;
            try {
                b.executable().run({{ids.data()}, {}}, {.check = check, .workers = workers});
            } catch (const UsageError& error) {
                said = error.what();
            }
            CHECK_THAT(said, Catch::StartsWith("odd.cpp:12: kernel odd: ids[4481] is -13443, but an id is even"));
            for (int i = 0; i < threads * blocks; ++i) REQUIRE(ids[static_cast<std::size_t>(i)] == i);
        }
}

TEST_CASE("data that keeps the rules is not reported", "[host]") {
    std::vector<std::int32_t> ids(threads * blocks, -1);
    CHECK_NOTHROW(reporting(blocks, {0, 1}).executable().run({{ids.data()}, {}}, {}));
}

TEST_CASE("a later rule is reported where the earlier ones are kept", "[host]") {
    std::vector<std::int32_t> ids(threads * blocks, -1);
    CHECK_THAT(error_of<UsageError>(reporting(199, {1}).executable(), {{ids.data()}, {}}),
               Catch::Contains("ids[12737] is -38211, but an id is small"));
}
