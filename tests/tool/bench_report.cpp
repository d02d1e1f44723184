// The bench's report: what is written, read again and called slower.
#include <catch2/catch.hpp>

#include "bench/report.hpp"
#include "tests/tool/support.hpp"

namespace tessera::tool_test {
namespace {

using bench::Row;

Row measured(const std::string& name, double us, double copy_us, double spread) {
    Row row;
    row.kernel = "k";
    row.name = name;
    row.clock = "graph";
    row.time = {us, spread, 15};
    row.copy_us = copy_us;
    return row;
}

std::vector<std::string> slower_than(const std::string& path, const std::vector<Row>& rows) {
    std::vector<std::string> names;
    for (const bench::Regression& r : bench::compare(path, rows)) names.push_back(r.row->name);
    return names;
}

TEST_CASE("a case is slower only beyond the noise of both runs, relative to their copies") {
    using Names = std::vector<std::string>;
    const Folder folder;
    const std::string path = folder.file("old.json");
    bench::write_json(path, "a GPU", {measured("a", 100, 50, 0.01), measured("b", 1, 50, 0.01)});
    CHECK(slower_than(path, {measured("a", 200, 100, 0.01)}) == Names{});  // a machine of half the speed
    CHECK(slower_than(path, {measured("a", 100, 40, 0.01)}) == Names{"a"});
    CHECK(slower_than(path, {measured("a", 103.9, 50, 0.01)}) == Names{});  // noise: twice both spreads, 4 %
    CHECK(slower_than(path, {measured("a", 104.1, 50, 0.01)}) == Names{"a"});
    CHECK(slower_than(path, {measured("a", 110, 50, 0.05)}) == Names{});
    CHECK(slower_than(path, {measured("b", 1.4, 50, 0.01)}) == Names{});  // less than half a microsecond
    CHECK(slower_than(path, {measured("new", 900, 50, 0.01)}) == Names{});
    CHECK(bench::compare(path, {measured("a", 200, 50, 0.01)})[0].ratio == Approx(2.0));
}

TEST_CASE("times of one clock are not compared with another's") {
    const Folder folder;
    const std::string path = folder.file("old.json");
    Row row = measured("a", 100, 50, 0.01);
    bench::write_json(path, "a GPU", {row});
    row.clock = "cupti";
    CHECK(usage_error([&] { bench::compare(path, {row}); }) ==
          path + ": its times are by the clock \"graph\", and these by \"cupti\"; measure with --clock graph");
    bench::write_json(path, "a GPU", {row});
    CHECK(bench::compare(path, {row}).empty());
}

TEST_CASE("files that are no report of the bench are refused with their name") {
    const Folder folder;
    const std::string path = folder.file("f.json");
    const auto said = [&] { return usage_error([&] { bench::compare(path, {measured("a", 1, 1, 0)}); }); };
    CHECK(said() == path + " cannot be opened; name a readable JSON file");
    put(path, "no JSON");
    CHECK(said() == path + " is not a JSON list of rows; give a file that `tessera bench --json` wrote");
    put(path, "[{}]");
    CHECK(said() == path + ": a row has no \"kernel\"; the file is of another form");
    put(path, R"([{"kernel": 7}])");
    CHECK(said() == path + ": \"kernel\" has the wrong type");
}

TEST_CASE("a report takes the place of an old one as a whole, or leaves it") {
    const Folder folder;
    const std::string path = folder.file("f.json");
    put(path, std::string(100'000, 'x'));
    bench::write_json(path, "a GPU", {});
    CHECK(get(path) == "[]\n");
    CHECK(usage_error([&] { bench::write_json(folder.file("none/f.json"), "a GPU", {}); }).find("none/f.json") !=
          std::string::npos);
    CHECK(folder.entries() == 1);
}

TEST_CASE("the reference's figures are found by kernel and case") {
    const bench::Figures figures;
    Row known = measured("T=8001, 32 heads, D=128, bf16", 1, 1, 0), other = measured("T=8001", 1, 1, 0);
    known.kernel = other.kernel = "apply_rotary";
    figures.fill(known);
    figures.fill(other);
    CHECK(known.reference_us == 34.5);  // bench/reference.json
    CHECK(known.goal_us == 34.5);
    CHECK_FALSE(other.reference_us);
}

}  // namespace
}  // namespace tessera::tool_test
