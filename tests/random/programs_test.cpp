#include <catch2/catch.hpp>
#include <set>

#include "dsl/emit/cuda.hpp"
#include "dsl/host/executor.hpp"
#include "dsl/ir/verify.hpp"
#include "dsl/ir/walk.hpp"
#include "dsl/lower/lower.hpp"
#include "runtime/nvrtc/find.hpp"
#include "runtime/nvrtc/nvrtc.hpp"
#include "tests/support/programs/device_launch.hpp"
#include "tests/support/programs/launch.hpp"

// Random small programs: recorded, lowered and executed lane by lane, against whole tiles computed from the recording.

namespace {

using namespace tessera;
using namespace tessera::test;

void run_on_host(const ProgramCase& c, const Target& target, const Buffers& buffers) {
    const auto lowered = std::make_shared<const ir::Program>(lower::lower(c.program.ir(), target));
    ir::verify(c.program.ir());
    ir::verify(*lowered);
    const host::Executable executable(lowered);
    host::Settings settings;
    settings.workers = 1;
    executable.run({buffers.bases(), c.scalars}, settings);
}

void check_programs(const Target& target, std::uint64_t first, std::uint64_t count) {
    for (std::uint64_t seed = first; seed < first + count; ++seed) {
        const ProgramCase c = random_program(seed);
        INFO("seed " << seed);
        CHECK(disagreement(c, [&](const Buffers& buffers) { run_on_host(c, target, buffers); }) == "");
    }
}

/// What stands in a recorded program beyond arithmetic.
std::set<std::string> kinds_in(const ir::Program& p) {
    std::set<std::string> kinds;
    const auto note_view = [&](const ir::View& view, const char* what) {
        for (const ir::ViewAxis& axis : view.axes)
            if (!axis.offset->scalar())
                kinds.insert(std::string(what) + (view.space == ir::Space::shared ? " in a shared tile" : ""));
    };
    const auto note_node = [&](ir::Ref n) {
        if (const auto* load = n->as<ir::Load>()) {
            note_view(load->view, "gather");
            if (load->cache == ir::Cache::streaming) kinds.insert("streaming load");
            if (load->cache == ir::Cache::kept) kinds.insert("kept load");
        }
        if (const auto* product = n->as<ir::Mma>())
            kinds.insert(std::string("product of ") + name_of(product->a->type) +
                         (product->shared_a   ? ", both in place"
                          : product->shared_b ? ", one in place"
                                              : ""));
    };
    ir::for_each_statement(p.body, [&](const ir::Statement& s) {
        if (const auto* bind = s.as<ir::Bind>()) note_node(bind->value);
        if (const auto* store = s.as<ir::Store>()) {
            note_view(store->view, "scatter");
            if (store->cache == ir::Cache::streaming) kinds.insert("streaming store");
        }
        if (const auto* sum = s.as<ir::Accumulate>()) note_view(sum->view, "scattered addition");
        if (const auto* copy = s.as<ir::Copy>()) {
            note_view(copy->from, "gathering copy");
            kinds.insert(copy->tensor           ? "copy by a tensor map"
                         : copy->mbarriers >= 0 ? "bulk copy"
                                                : "copy by vectors");
        }
        if (const auto* wait = s.as<ir::WaitCopies>(); wait && wait->pending > 0) kinds.insert("wait for some groups");
        if (s.as<ir::Arrive>()) kinds.insert("arrival");
        if (s.as<ir::GridSync>()) kinds.insert("grid sync");
        if (const auto* loop = s.as<ir::For>(); loop && loop->each_warp) kinds.insert("warps by themselves");
        if (s.as<ir::Report>()) kinds.insert("report");
    });
    if (!p.roles.empty()) kinds.insert(std::to_string(p.roles.size()) + " roles");
    for (const ir::WarpRole& role : p.roles)
        if (role.registers > 0) kinds.insert("budget of registers");
    return kinds;
}

}  // namespace

TEST_CASE("random programs contain what they are to test", "[random]") {
    std::set<std::string> found;
    for (std::uint64_t seed = 0; seed < 400; ++seed) found.merge(kinds_in(random_program(seed).program.ir()));
    for (const char* kind : {"gather",
                             "gather in a shared tile",
                             "scatter",
                             "scatter in a shared tile",
                             "scattered addition",
                             "scattered addition in a shared tile",
                             "gathering copy",
                             "copy by vectors",
                             "bulk copy",
                             "copy by a tensor map",
                             "wait for some groups",
                             "arrival",
                             "2 roles",
                             "3 roles",
                             "budget of registers",
                             "grid sync",
                             "warps by themselves",
                             "report",
                             "streaming load",
                             "kept load",
                             "streaming store"}) {
        INFO(kind);
        CHECK(found.count(kind) == 1);
    }
    for (const char* type : {"bf16", "f16", "tf32", "e4m3"})
        for (const char* where : {"", ", one in place", ", both in place"}) {
            INFO(type << where);
            CHECK(found.count(std::string("product of ") + type + where) == 1);
        }
}

TEST_CASE("random programs compile", "[nvrtc]") {
    if (!runtime::nvrtc_search().path) {
        WARN("libnvrtc was not found, so nothing was compiled: " + runtime::nvrtc_search().problem);
        return;
    }
    constexpr std::size_t longest = 40000;  // of the texts: ptxas takes seconds for more
    std::uint64_t seed = 3000;
    for (int compiled = 0; compiled < 8; ++seed) {
        const Target target = seed % 2 == 0 ? Target::h200() : Target::b200();
        const ir::Program lowered = lower::lower(random_program(seed).program.ir(), target);
        const std::string text = emit::cuda_text(lowered, target, {.line_directives = false});
        if (text.size() > longest) continue;
        ++compiled;
        const std::vector<std::string> options = {std::string("--gpu-architecture=") + target.arch(), "--std=c++17",
                                                  "--fmad=false"};
        const auto outcome = runtime::Nvrtc::loaded().compile(text, lowered.name + ".cu", options);
        INFO("seed " << seed << " for " << target.arch() << "\n" << outcome.log);
        CHECK(outcome.ok);
        CHECK(outcome.log.find("ptxas warning") == std::string::npos);
    }
}

TEST_CASE("random programs mean the same lane by lane, lowered for the H200", "[random]") {
    check_programs(Target::h200(), 0, 400);
}

TEST_CASE("random programs mean the same lane by lane, lowered for the B200", "[random]") {
    check_programs(Target::b200(), 1000, 100);
}

TEST_CASE("random programs mean the same when the engine launches them", "[random]") {
    for (std::uint64_t seed = 2000; seed < 2040; ++seed) {
        INFO("seed " << seed);
        CHECK(check_on_device(Device::host(), seed) == "");
    }
}

TEST_CASE("a seed gives the same program and the same inputs every time", "[random]") {
    const ProgramCase a = random_program(5), b = random_program(5);
    CHECK(a.scalars == b.scalars);
    CHECK(a.tensors == b.tensors);
    CHECK(a.program.ir().arena->size() == b.program.ir().arena->size());
}
