#include "dsl/ir/report.hpp"

#include "dsl/ir/effects.hpp"
#include "dsl/ir/equal.hpp"
#include "dsl/ir/print.hpp"
#include "tests/ir/verify_support.hpp"

// Reports in both stages, and the sentence that one becomes.

using namespace tessera;
using namespace tessera::ir;
using namespace tessera::ir::sample;

namespace {

constexpr const char* text = "a weight is at most 1";

/// The recorded sample with a last statement that reports elements of x above a bound.
struct Reporting : Recorded {
    Reporting() {
        p.rules = {{text, 0, true, bf16, line(30)}};
        const Ref bad = node(boolean, {4, 1024}, Binary{BinaryOp::gt, load, node(bf16, {4, 1024}, Broadcast{one()})});
        p.body.push_back(statement(Report{0, rows(0), bad, wide(7)}));
    }
    Ref one() { return constant(bf16, 0x3f80); }
    Report& report() { return *p.body.back().as<Report>(); }
};

/// The lowered sample with a last statement that reports an element of x.
struct ReportingElement : Lowered {
    ReportingElement() {
        p.rules = {{text, 0, true, bf16, line(30)}};
        p.body.push_back(statement(ReportElement{0, constant(u64, 5), inside, wide(7)}));
    }
    ReportElement& report() { return *p.body.back().as<ReportElement>(); }
};

}  // namespace

TEST_CASE("reports print with their rule, and touch no memory") {
    Reporting recorded;
    CHECK(verdict(recorded.p) == "");
    CHECK_THAT(print_line(recorded.p, recorded.p.body.back()),
               Catch::StartsWith("report rule 0 at x.block[4, 1024]") && Catch::EndsWith(", value 7"));
    ReportingElement lowered;
    CHECK(verdict(lowered.p) == "");
    CHECK(print_line(lowered.p, lowered.p.body.back()) == "report rule 0 at place 5, value 7 if row < tokens");
    for (const Program* p : {&recorded.p, &lowered.p}) {
        CHECK_THAT(print(*p), Catch::Contains("rule 0 of x: a weight is at most 1   // rms_norm.cpp:30\n"));
        CHECK(reads_of(p->body.back()).memories.empty());
        CHECK(writes_of(p->body.back()).empty());
    }
    CHECK(reads_of(lowered.p.body.back()).locals == std::vector<int>{0});
}

TEST_CASE("programs with other rules are not equal") {
    ReportingElement a, b;
    CHECK(equal(a.p, b.p));
    b.p.rules[0].text = "a weight is at most 2";
    CHECK_FALSE(equal(a.p, b.p));
    b.p.rules[0] = a.p.rules[0];
    b.p.rules[0].shown = f16;
    CHECK_FALSE(equal(a.p, b.p));
}

TEST_CASE("a recorded report marks elements of its rule's tensor") {
    using R = Reporting;
    const Breach<R> breaches[] = {
        {"index-range", "no such rule", [](R& s) { s.report().rule = 1; }},
        {"index-range", "no tensor", [](R& s) { s.p.rules[0].tensor = 2; }},
        {"rules", "rank 1 or 2", [](R& s) { s.p.tensors[0].axes.push_back({s.wide(1), s.wide(1)}); }},
        {"rules", "says nothing", [](R& s) { s.p.rules[0].text = ""; }},
        {"rules", "more rules", [](R& s) { s.p.rules.resize(256, s.p.rules[0]); }},
        {"report", "tensor of its rule", [](R& s) { s.p.rules[0].tensor = 1; }},
        {"operand-type", "a boolean", [](R& s) { s.report().bad = s.load; }},
        {"operand-type", "i64", [](R& s) { s.report().value = s.narrow(1); }},
        {"operand-shape", "the mask", [](R& s) { s.report().view.axes[0].extent = 2; }},
        {"operand-shape", "the value", [](R& s) { s.report().value = s.node(i64, {4, 1}, Broadcast{s.wide(1)}); }},
    };
    check_breaches(breaches);
}

TEST_CASE("a lowered report is of one element") {
    using R = ReportingElement;
    const Breach<R> breaches[] = {
        {"index-range", "no such rule", [](R& s) { s.report().rule = -1; }},
        {"report", "u64", [](R& s) { s.report().place = s.wide(5); }},
        {"operand-type", "a boolean", [](R& s) { s.report().bad = s.wide(1); }},
        {"operand-shape", "one element",
         [](R& s) { s.report().bad = s.node(boolean, {2}, Pack{{s.inside, s.inside}}); }},
    };
    check_breaches(breaches);
}

TEST_CASE("a report's sentence names kernel, rule, place and value") {
    ReportingElement s;
    const auto said = [&](std::uint64_t row, std::uint64_t column, std::uint64_t value) {
        return sentence_of(s.p, {row << 24 | column, value});
    };
    CHECK(said(12, 34, 0x4000) ==
          "/home/writer/rms_norm.cpp:30: kernel absolute: x[12, 34] is 2.0, but a weight is at most 1; it is the first "
          "such element, and what the launch wrote cannot be relied on");
    CHECK_THAT(said(0xFFFFFFFF, 0xFFFFFF, 0), Catch::Contains("x[4294967295, 16777215 or beyond] is 0.0"));
    s.p.rules.push_back({"an id is below 8", 0, true, i32, line(31)});
    s.p.tensors[0].axes.resize(1);
    const std::uint64_t second = std::uint64_t{1} << 56;
    CHECK_THAT(sentence_of(s.p, {second | 0xFF'FFFF'FFFF'FFFF, ~std::uint64_t{8}}),
               Catch::Contains(":31: ") && Catch::Contains("x[72057594037927935] is -9, but an id is below 8"));
    s.p.rules[1].valued = false;
    CHECK_THAT(sentence_of(s.p, {second, 0}), Catch::Contains("x[0] is refused: an id is below 8"));
    CHECK_THROWS_AS(sentence_of(s.p, {second * 2, 0}), InternalError);
    CHECK_THROWS_AS(sentence_of(s.p, {}), InternalError);
}

TEST_CASE("of two offenders the lower rule and place is first") {
    const Offender none, a{5, 1}, b{6, 2}, c{std::uint64_t{1} << 56, 3};
    CHECK_FALSE(none.found());
    for (const auto& [x, y, first] :
         {std::tuple(a, b, a), std::tuple(b, a, a), std::tuple(none, c, c), std::tuple(c, b, b)})
        CHECK(Offender::first(x, y).value == first.value);
    CHECK(c.rule() == 1);
}
