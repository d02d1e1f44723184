#include <algorithm>

#include "dsl/ir/effects.hpp"
#include "dsl/ir/equal.hpp"
#include "dsl/ir/print.hpp"
#include "tests/ir/verify_support.hpp"

// Running sums; grid syncs and waits for the kernel ahead in both stages.

using namespace tessera;
using namespace tessera::ir;
using namespace tessera::ir::sample;

namespace {

/// The recorded sample that also sums along its rows.
struct Summing : Recorded {
    Ref running;
    explicit Summing(bool exclusive = false) { running = put(f32, {4, 1}, Scan{sum, 0, exclusive}); }
    Ref put(Element type, Shape shape, Op op) { return bind(p.body, node(type, shape, std::move(op))); }
};

template <class Sample>
struct Meeting : Sample {
    Meeting() {
        this->p.cooperative = true;
        this->p.body.push_back(this->statement(GridSync{}));
    }
};

}  // namespace

TEST_CASE("running sums print, and tell inclusive from exclusive ones") {
    const Summing inclusive, exclusive(true);
    CHECK(verdict(inclusive.p) == "");
    CHECK_THAT(print_line(inclusive.p, inclusive.p.body.back()),
               Catch::Contains("= inclusive_sum(") && Catch::Contains(", axis 0)"));
    CHECK_THAT(print_line(exclusive.p, exclusive.p.body.back()), Catch::Contains("= exclusive_sum("));
    CHECK(equal(inclusive.p, Summing().p));
    CHECK_FALSE(equal(inclusive.p, exclusive.p));
    CHECK(writes_of(inclusive.p.body.back()).empty());
}

TEST_CASE("running sums keep type and extents, of f32 and whole numbers, at a line of their own") {
    using S = Summing;
    const Breach<S> breaches[] = {
        {"axis", "no such axis", [](S& s) { s.put(f32, {4, 1}, Scan{s.sum, 2, false}); }},
        {"operand-shape", "not the node's", [](S& s) { s.put(f32, {4}, Scan{s.sum, 0, false}); }},
        {"operand-type", "not the node's", [](S& s) { s.put(i32, {4, 1}, Scan{s.sum, 0, false}); }},
        {"operand-type", "not defined", [](S& s) { s.put(bf16, {4, 1024}, Scan{s.load, 0, true}); }},
        {"bind-scope", "no Bind of it is in scope",
         [](S& s) {
             const Ref floating = s.node(f32, {4, 1}, Scan{s.sum, 0, false});
             s.p.body.push_back(s.statement(Assign{0, floating}));
         }},
    };
    check_breaches(breaches);
    Lowered lowered;
    lowered.p.body.push_back(lowered.statement(Let{1, lowered.node(i32, {}, Scan{lowered.narrow(1), 0, false})}));
    CHECK_THAT(verdict(lowered.p), Catch::Contains("does not belong to the program's stage"));
}

TEST_CASE("a grid sync prints, touches nothing and stands in both stages") {
    const Meeting<Recorded> recorded;
    const Meeting<Lowered> lowered;
    CHECK(verdict(recorded.p) == "");
    CHECK(verdict(lowered.p) == "");
    CHECK(print_line(recorded.p, recorded.p.body.back()) == "grid sync");
    CHECK_THAT(print(lowered.p), Catch::Contains(", cooperative"));
    CHECK(reads_of(lowered.p.body.back()).empty());
    CHECK(writes_of(lowered.p.body.back()).empty());
    CHECK_FALSE(equal(recorded.p, Recorded().p));
}

TEST_CASE("grid syncs stand at the top level of cooperative programs") {
    const Breach<Meeting<Recorded>> recorded[] = {
        {"grid-sync", "a cooperative program", [](auto& s) { s.p.cooperative = false; }},
        {"grid-sync", "top level",
         [](auto& s) {
             for (Statement& in : s.p.body)
                 if (auto* loop = in.template as<For>()) loop->body.push_back(s.statement(GridSync{}));
         }},
    };
    check_breaches(recorded);
    const Breach<Meeting<Lowered>> lowered[] = {
        {"grid-sync", "top level", [](auto& s) { s.template first<For>().body.push_back(s.statement(GridSync{})); }},
    };
    check_breaches(lowered);
}

namespace {

/// The sample waits for the kernel ahead, at first or behind its loads.
template <class Sample>
struct Waiting : Sample {
    explicit Waiting(std::size_t behind = 0) {
        this->p.dependent_launch = true;
        this->p.body.insert(this->p.body.begin() + static_cast<std::ptrdiff_t>(behind), wait());
    }
    Statement wait() { return this->statement(KernelAheadWait{}); }
};

}  // namespace

TEST_CASE("a wait for the kernel ahead prints, touches nothing and stands in both stages") {
    const Waiting<Recorded> recorded;
    const Waiting<Lowered> lowered;
    CHECK(verdict(recorded.p) == "");
    CHECK(verdict(lowered.p) == "");
    CHECK(print_line(recorded.p, recorded.p.body.front()) == "wait for the kernel ahead");
    CHECK_THAT(print(lowered.p), Catch::Contains(", dependent launch"));
    CHECK(reads_of(lowered.p.body.front()).empty());
    CHECK(writes_of(lowered.p.body.front()).empty());
    CHECK(verdict(Waiting<Recorded>(1).p) == "");
    CHECK_FALSE(equal(recorded.p, Waiting<Recorded>(1).p));
}

TEST_CASE("the kernel ahead is waited for once, at the top level, ahead of all that may meet it") {
    using R = Waiting<Recorded>;
    using L = Waiting<Lowered>;
    const Breach<R> recorded[] = {
        {"kernel-ahead", "waits once", [](R& s) { s.p.dependent_launch = false; }},
        {"kernel-ahead", "waits once", [](R& s) { s.p.body.erase(s.p.body.begin()); }},
        {"kernel-ahead", "waits once", [](R& s) { s.p.body.push_back(s.wait()); }},
        {"kernel-ahead", "not early", [](R& s) { s.p.cooperative = true; }},
        {"kernel-ahead", "inputs alone",
         [](R& s) { std::rotate(s.p.body.begin(), s.p.body.begin() + 1, s.p.body.end()); }},
        {"kernel-ahead", "inputs alone",
         [](R& s) {
             std::rotate(s.p.body.begin(), s.p.body.begin() + 1, s.p.body.begin() + 2);
             s.p.tensors[0].role = Role::inout;
         }},
    };
    check_breaches(recorded);
    const Breach<L> lowered[] = {
        {"kernel-ahead", "top level",
         [](L& s) {
             s.p.body.erase(s.p.body.begin());
             s.template first<For>().body.push_back(s.wait());
         }},
        {"kernel-ahead", "inputs alone",
         [](L& s) { std::rotate(s.p.body.begin(), s.p.body.begin() + 1, s.p.body.end()); }},
    };
    check_breaches(lowered);
}
