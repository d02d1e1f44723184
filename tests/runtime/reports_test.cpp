#include "runtime/reports.hpp"

#include <catch2/catch.hpp>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "dsl/base/error.hpp"

// The records of a device against a driver of which memory lies on the host, and where all work is done at once.

using namespace tessera;
using Catch::Matchers::Contains;
using runtime::DriverPointer;
using runtime::Reports;

namespace {

std::set<void*> captured_streams;
std::set<std::pair<void*, void*>> waited_for;  // a stream, and the one whose event it was given
// What the driver has, to the end of the process.
std::deque<std::unique_ptr<void, decltype(&std::free)>> memory;
std::deque<void*> all_events;  // each holds the stream that it was recorded on
int next_stream, copies, capture_mode, waits, events;
bool contexts_gone;

int allocate(DriverPointer* address, std::size_t bytes, void*, void*) {
    *address = reinterpret_cast<DriverPointer>(memory.emplace_back(std::aligned_alloc(256, bytes), std::free).get());
    return 0;
}
int fill(DriverPointer address, unsigned char value, std::size_t bytes, void*) {
    std::memset(reinterpret_cast<void*>(address), value, bytes);
    return 0;
}
int copy(DriverPointer to, DriverPointer from, std::size_t bytes, void*) {
    ++copies;
    std::memcpy(reinterpret_cast<void*>(to), reinterpret_cast<void*>(from), bytes);
    return 0;
}
int make_stream(void** handle, unsigned flags) {
    CHECK(flags == 1);         // apart from the default stream
    CHECK(capture_mode == 2);  // relaxed
    *handle = reinterpret_cast<void*>(static_cast<std::uintptr_t>(++next_stream + 1000));
    return 0;
}
int destroy_stream(void*) { return 0; }
int wait(void*) {
    ++waits;
    return 0;
}
int make_event(void** event, unsigned flags) {
    CHECK(flags == 2);         // without times
    CHECK(capture_mode == 2);  // relaxed
    ++events;
    *event = &all_events.emplace_back(nullptr);
    return 0;
}
int record_event(void* event, void* stream) {
    *static_cast<void**>(event) = stream;
    return 0;
}
int wait_for_event(void* stream, void* event, unsigned) {
    waited_for.emplace(stream, *static_cast<void**>(event));
    return 0;
}
int destroy_event(void*) {
    --events;
    return 0;
}
int current(void** context) {
    *context = &contexts_gone;
    return 0;
}
int push(void*) { return contexts_gone ? 709 : 0; }
int pop(void**) { return 0; }
int is_capturing(void* stream, int* status) {
    *status = captured_streams.contains(stream) ? 1 : 0;
    return 0;
}
int exchange_mode(int* mode) {
    std::swap(*mode, capture_mode);
    return 0;
}
struct Fixture {
    runtime::DriverApi api;
    Reports reports{api, "cuda:7"};
    void* const none = nullptr;
    void* const a = &api;
    void* const b = &captured_streams;

    Fixture() {
        captured_streams.clear();
        waited_for.clear();
        copies = capture_mode = waits = events = next_stream = 0;
        contexts_gone = false;
        api.allocate = allocate, api.fill_bytes = fill, api.copy = copy;
        api.stream_create = make_stream, api.stream_destroy = destroy_stream, api.stream_synchronize = wait;
        api.event_create = make_event, api.event_record = record_event, api.event_destroy = destroy_event;
        api.stream_wait_event = wait_for_event;
        api.context_current = current, api.context_push = push, api.context_pop = pop;
        api.stream_is_capturing = is_capturing, api.thread_capture_mode = exchange_mode;
    }

    std::shared_ptr<ir::Program> kernel(const std::string& name) {
        auto p = std::make_shared<ir::Program>();
        p->name = name;
        const ir::Ref n = p->arena->make(i64, {}, {}, ir::Constant{1});
        p->tensors = {{"ids", i32, ir::Role::input, {{n, n}}, 4, {}}};
        p->rules = {{"an id is small", 0, true, i32, {}}};
        return p;
    }
    /// A launch that finds ids[place] wrong.
    void launch(const std::shared_ptr<ir::Program>& p, void* stream, std::uint64_t place) {
        auto* record = reinterpret_cast<ir::Offender*>(reports.record_for(p, stream, nullptr));
        CHECK(reinterpret_cast<std::uintptr_t>(record) % 16 == 0);
        *record = ir::Offender::first(*record, {place, 100 + place});
    }
    std::string said(void* stream) {
        try {
            reports.synchronize(stream);
        } catch (const UsageError& error) {
            return error.what();
        }
        return {};
    }
};

}  // namespace

TEST_CASE_METHOD(Fixture, "a report is told by the next synchronisation of its stream, once") {
    const auto k = kernel("k");
    CHECK(said(a) == "");
    launch(k, a, 9);
    launch(k, a, 4);
    CHECK(said(b) == "");
    CHECK_THAT(said(a), Contains("kernel k: ids[4] is 104, but an id is small"));
    CHECK(said(a) == "");
    launch(k, a, 5);
    CHECK_THAT(said(a), Contains("ids[5]"));
    CHECK(capture_mode == 0);
}

TEST_CASE_METHOD(Fixture, "streams do not see each other's reports; the default stream sees all and all see its") {
    const auto k = kernel("k"), l = kernel("l");
    launch(k, a, 1);
    launch(l, b, 2);
    CHECK_THAT(said(b), Contains("kernel l: ids[2]") && !Contains("kernel k"));
    launch(l, b, 3);
    const std::string all = said(none);
    CHECK_THAT(all, Contains("kernel k: ids[1]") && Contains("\n") && Contains("kernel l: ids[3]"));
    CHECK(said(a) == "");
    launch(k, none, 6);
    CHECK_THAT(said(b), Contains("kernel k: ids[6]"));
    CHECK(said(none) == "");
}

TEST_CASE_METHOD(Fixture, "what another stream has not finished is looked at again") {
    const auto k = kernel("k");
    auto* record = reinterpret_cast<ir::Offender*>(reports.record_for(k, none, nullptr));
    CHECK(said(a) == "");  // of a stream that does not wait for the default one
    *record = {8, 1};
    CHECK_THAT(said(none), Contains("ids[8]"));
}

TEST_CASE_METHOD(Fixture, "a captured launch keeps its record and is told after any replay, by any stream") {
    const auto k = kernel("k");
    captured_streams.insert(a);
    auto* record = reinterpret_cast<ir::Offender*>(reports.record_for(k, a, nullptr));
    CHECK(said(a) == "");  // the real driver refuses to wait
    CHECK(copies == 0);    // nothing of it entered the graph
    captured_streams.clear();
    CHECK(said(b) == "");
    for (int replay = 0; replay < 3; ++replay) {
        *record = {5, 1};
        CHECK_THAT(said(b), Contains("ids[5]"));
        CHECK(said(b) == "");
    }
}

TEST_CASE_METHOD(Fixture,
                 "a first record is made on its own stream, without a wait; other streams read it after that") {
    const auto k = kernel("k");
    launch(k, a, 3);
    CHECK((waits == 0 && next_stream == 0 && events == 1));
    CHECK(said(b) == "");
    CHECK(waited_for.empty());
    CHECK_THAT(said(none), Contains("ids[3]"));
    CHECK(waited_for == std::set<std::pair<void*, void*>>{{none, a}});
    CHECK(events == 0);
    launch(k, b, 4);  // of memory that is ready by now
    CHECK(reports.allocations() == 1);
    CHECK_THAT(said(none), Contains("ids[4]"));
    CHECK(waited_for.size() == 1);
}

TEST_CASE_METHOD(Fixture, "memory cleared on one stream serves no other, and no graph, before that is done") {
    const auto k = kernel("k");
    launch(k, a, 3);
    launch(kernel("l"), a, 5);
    CHECK(reports.allocations() == 1);
    launch(k, b, 4);
    CHECK(reports.allocations() == 2);
    captured_streams.insert(a);
    launch(k, a, 6);
    captured_streams.clear();
    CHECK(reports.allocations() == 3);
    CHECK(next_stream == 1);  // of the graph's
    CHECK_THAT(said(a), Contains("ids[3]") && Contains("ids[5]") && Contains("ids[6]"));
    CHECK_THAT(said(b), Contains("ids[4]"));
    CHECK((events == 0 && waited_for.empty()));
}

TEST_CASE_METHOD(Fixture, "prepared records leave nothing for the launch, captured or not") {
    const auto k = kernel("k");
    reports.prepare(k, a, nullptr);
    reports.prepare(k, a, nullptr);
    CHECK((reports.count() == 2 && reports.allocations() == 1 && waits == 1));
    CHECK(said(a) == "");
    CHECK(copies == 0);  // nothing was launched
    launch(k, a, 3);
    CHECK_THAT(said(a), Contains("ids[3]"));
    captured_streams.insert(a);
    launch(k, a, 4);
    captured_streams.clear();
    CHECK_THAT(said(b), Contains("ids[4]"));
    CHECK((reports.count() == 2 && reports.allocations() == 1 && events == 0 && next_stream == 1));
}

TEST_CASE_METHOD(Fixture, "records whose context is gone are not read") {
    launch(kernel("k"), a, 3);
    contexts_gone = true;
    CHECK(said(none) == "");
    contexts_gone = false;
    CHECK(said(none) == "");
    CHECK((copies == 0 && waited_for.empty() && reports.count() == 0));
    launch(kernel("l"), a, 4);  // a stream of another context at the old one's address
    CHECK(reports.allocations() == 2);
    CHECK_THAT(said(none), Contains("ids[4]"));
}

TEST_CASE_METHOD(Fixture, "synchronising costs nothing more where nothing can have been reported") {
    CHECK(said(a) == "");
    CHECK((copies == 0 && waits == 1));
    const auto k = kernel("k");
    reports.record_for(k, a, nullptr);
    waits = 0;
    CHECK(said(a) == "");
    CHECK((copies == 1 && waits == 1));
    CHECK(said(a) == "");
    CHECK((copies == 1 && waits == 2));
}

TEST_CASE_METHOD(Fixture, "records of kernels that are gone are used again, others never") {
    const auto kept = kernel("kept");
    reports.record_for(kept, a, nullptr);
    std::set<DriverPointer> given;
    for (int i = 0; i < 5000; ++i) {
        const auto k = kernel("k");
        given.insert(reports.record_for(k, i % 2 ? a : b, nullptr));
        if (i % 100 == 99) CHECK((said(a) == "" && said(b) == ""));
    }
    CHECK(given.size() < 512);
    CHECK(given.count(reports.record_for(kept, a, nullptr)) == 0);

    std::vector<std::shared_ptr<ir::Program>> many;  // more than one piece of memory holds
    for (int i = 0; i < 600; ++i)
        launch(many.emplace_back(kernel("k" + std::to_string(i))), a, static_cast<std::uint64_t>(1000 + i));
    const std::string text = said(a);
    for (int i = 0; i < 600; ++i)
        if (text.find("kernel k" + std::to_string(i) + ": ids[" + std::to_string(1000 + i) + "]") == std::string::npos)
            FAIL("the report of kernel k" << i << " is lost");
}
