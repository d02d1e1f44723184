#include <catch2/catch.hpp>

#include "builder.hpp"
#include "dsl/base/error.hpp"

// Atomic additions: no worker's is lost, masked ones do not happen, and they are checked like any access.

using namespace host_test;

namespace {

ir::AtomicAdd add(int memory, Ref index, Ref value, Ref predicate = nullptr) {
    return {global(memory, index, 1, predicate), value};
}

}  // namespace

TEST_CASE("additions of all workers arrive", "[host]") {
    constexpr int threads = 64, blocks = 500;
    Builder b("count", threads);
    b.grid({b.i64c(blocks)});
    const int wide = b.vector_tensor("wide", i64, b.i64c(2)), narrow = b.vector_tensor("narrow", u32, b.i64c(8));
    const Ref odd = b.op(BinaryOp::eq, b.op(BinaryOp::bit_and, b.thread(), b.i32c(1)), b.i32c(1));
    b.put(add(wide, b.i64c(0), b.add(b.block(), b.thread64())), {});
    b.put(add(wide, b.i64c(1), b.i64c(-1), odd), {});
    b.put(add(narrow, b.op(BinaryOp::bit_and, b.thread64(), b.i64c(7)), b.constant(u32, 3)), {});
    for (const bool check : {true, false}) {
        std::int64_t sums[2] = {5, 7};
        std::uint32_t parts[8] = {0xFFFFFFFF, 1, 2, 3, 4, 5, 6, 7};
        b.executable().run({{sums, parts}, {}}, {.check = check, .workers = 4});
        CHECK(sums[0] ==
              5 + std::int64_t{threads} * blocks * (blocks - 1) / 2 + std::int64_t{blocks} * threads * 63 / 2);
        CHECK(sums[1] == 7 - blocks * threads / 2);
        CHECK(parts[0] == blocks * threads / 8 * 3 - 1);  // wraps
        for (std::uint32_t i = 1; i < 8; ++i) CHECK(parts[i] == i + blocks * threads / 8 * 3);
    }
}

TEST_CASE("an addition out of bounds is reported", "[host]") {
    Builder b("count", 32);
    b.grid({b.i64c(1)});
    const int sums = b.vector_tensor("sums", i64, b.i64c(31));
    b.put(add(sums, b.thread64(), b.i64c(1)), Here::current());
    std::int64_t memory[32] = {};
    CHECK_THAT(error_of<UsageError>(b.executable(), {{memory}, {}}), Catch::Contains("sums[31]"));
    CHECK(memory[0] == 0);
}

namespace {

enum class Step { none, zero, barrier, add, load };

/// Threads that zero counters[t], add to counters[t / 2] and load counters[t / 2], with barriers where said.
struct Counting {
    Builder b{"count", 64};
    Counting(std::initializer_list<Step> steps) {
        b.grid({b.i64c(2)});
        const int y = b.vector_tensor("y", i32, b.i64c(64)), tile = b.tile("counters", i32, {64}, 0);
        const int r = b.array("r", i32, 1, 1);
        const Ref half = b.op(BinaryOp::div, b.thread(), b.i32c(2));
        b.set(r, 0, b.i32c(0));
        for (const Step step : steps) {
            if (step == Step::zero) b.store(shared(tile, b.thread()), {b.i32c(0)});
            if (step == Step::barrier) b.barrier();
            if (step == Step::add) b.put(ir::AtomicAdd{shared(tile, half), b.add(b.thread(), b.i32c(1))}, {});
            if (step == Step::load) b.load(shared(tile, half), r, 0);
        }
        b.store(global(y, b.thread64()), {b.word(r, 0)});
    }
    std::string error(std::vector<std::int32_t>& y) const {
        return error_of<UsageError>(b.executable(), {{y.data()}, {}});
    }
};

}  // namespace

TEST_CASE("additions to shared memory meet each other without a barrier, all else needs one", "[host]") {
    using enum Step;
    std::vector<std::int32_t> y(64);
    CHECK(Counting({zero, barrier, add, add, barrier, load}).error(y) == "");
    for (std::int32_t t = 0; t < 64; ++t) CHECK(y[static_cast<std::size_t>(t)] == 2 * (4 * (t / 2) + 3));
    const auto contains = [](const char* text) { return Catch::Contains(text); };
    CHECK_THAT(Counting({add}).error(y), contains("the addition to counters[0] reads shared memory that nothing has"));
    CHECK_THAT(
        Counting({zero, add}).error(y),
        contains("the addition to counters[0] by thread 1 is not ordered after the store of 'counters' by thread 0"));
    // Thread 1 added last; of itself it knows, of thread 0 it does not.
    CHECK_THAT(
        Counting({zero, barrier, add, load}).error(y),
        contains("the load from counters[0] by thread 0 is not ordered after the addition of 'counters' by thread 1"));
    CHECK_THAT(Counting({zero, barrier, add, zero}).error(y), contains("not ordered after the addition"));
    CHECK_THAT(
        Counting({zero, barrier, load, add}).error(y),
        contains("the addition to counters[0] by thread 0 is not ordered after the load of 'counters' by thread 1"));
    CHECK(Counting({zero, barrier, load, barrier, add, barrier, zero, barrier, add}).error(y) == "");
}

TEST_CASE("the last to add to shared memory must wait for the others before it reads", "[host]") {
    Builder b("count", 32);
    b.grid({b.i64c(1)});
    const int tile = b.tile("counters", i32, {1}, 0), r = b.array("r", i32, 1, 1);
    b.store(shared(tile, b.i32c(0), 1, b.op(BinaryOp::eq, b.thread(), b.i32c(0))), {b.i32c(0)});
    b.barrier();
    b.put(ir::AtomicAdd{shared(tile, b.i32c(0)), b.i32c(1)}, {});
    b.load(shared(tile, b.i32c(0), 1, b.op(BinaryOp::eq, b.thread(), b.i32c(31))), r, 0, b.i32c(0));
    CHECK_THAT(error_of<UsageError>(b.executable(), {}), Catch::Contains("the load from counters[0] by thread 31"));
}

TEST_CASE("only whole numbers of 32 and 64 bits can be added", "[host]") {
    for (const Element type : {f32, i16, u8}) {
        Builder b("count", 32);
        b.grid({b.i64c(1)});
        const int sums = b.vector_tensor("sums", type, b.i64c(1));
        b.put(add(sums, b.i64c(0), b.constant(type, 1)), {});
        float memory = 0;
        CHECK_THAT(error_of<InternalError>(b.executable(), {{&memory}, {}}), Catch::Contains("cannot move"));
    }
}
