#include "bench/device_clock.hpp"

#include <algorithm>
#include <fmt/format.h>

#include "bench/cupti/busy_times.hpp"
#include "bench/cupti/find.hpp"
#include "bench/cupti/recorder.hpp"
#include "bench/graph_replay.hpp"
#include "dsl/base/error.hpp"
#include "runtime/device.hpp"
#include "runtime/driver/driver.hpp"
#include "runtime/tensor.hpp"

namespace tessera::bench {

namespace {

constexpr int recorded_launches = 200;

}  // namespace

ClockKind clock_kind(const std::string& text) {
    if (text == "auto") return ClockKind::automatic;
    if (text == "cupti") return ClockKind::cupti;
    if (text == "graph") return ClockKind::graph;
    throw UsageError(fmt::format("there is no clock \"{}\"; there are auto, cupti and graph", text));
}

DeviceClock::DeviceClock(const Stream& stream, ClockKind kind)
    : stream_(stream), l2_bytes_(stream.device().target().l2_bytes) {
    if (stream.device().is_host()) throw UsageError("device time is measured on a GPU; name one, such as cuda:0");
    if (kind == ClockKind::graph) return;
    try {
        start_recorder();
    } catch (const UsageError& error) {
        recorder_ = nullptr;
        if (kind == ClockKind::cupti)
            throw UsageError(fmt::format("CUPTI cannot be used: {}; --clock graph needs none", error.what()));
        remark_ = fmt::format("CUPTI is not used: {}", error.what());
    }
}

DeviceClock::~DeviceClock() = default;

/// Opens CUPTI and has it record a fill, so that what it does not do is known before the first row.
void DeviceClock::start_recorder() {
    recorder_ = std::make_unique<cupti::Recorder>(cupti::find_library());
    const auto fill = [&] {
        Tensor::zeros(stream_, Element::u8, {1 << 20});
        stream_.synchronize();
    };
    fill();
    const std::size_t records = recorder_->record(fill).size();
    if (records != 1) throw UsageError(fmt::format("{} records {} activities for a fill", recorder_->name(), records));
}

int DeviceClock::sets_beyond_cache(std::int64_t bytes_of_one) const {
    return static_cast<int>(std::clamp<std::int64_t>(
        1 + (4 * l2_bytes_ + bytes_of_one - 1) / std::max<std::int64_t>(bytes_of_one, 1), 2, 1000));
}

std::vector<double> DeviceClock::times_by_records(const std::function<void(int)>& launch) const {
    std::size_t met = 0;
    for (int attempt = 0; attempt < 3; ++attempt) {  // once in a while a record of something else is among them
        const std::vector<cupti::Activity> activities = recorder_->record([&] {
            for (int i = 0; i < recorded_launches; ++i) launch(i);
            stream_.synchronize();
        });
        std::vector<double> times = cupti::busy_times(activities, recorded_launches);
        if (!times.empty()) return times;
        met = activities.size();
    }
    throw UsageError(fmt::format("{} records {} activities for {} like launches; take --clock graph", recorder_->name(),
                                 met, recorded_launches));
}

DeviceClock::Time DeviceClock::time(const std::function<void(int)>& launch) const {
    const runtime::CurrentContext current(stream_.context());
    for (int i = 0; i < 3; ++i) launch(i);
    stream_.synchronize();
    std::vector<double> times = recorder_ ? times_by_records(launch) : times_by_replays(stream_, launch);
    std::sort(times.begin(), times.end());
    const double median = times[times.size() / 2];
    return {median, (times[times.size() * 3 / 4] - times[times.size() / 4]) / median, static_cast<int>(times.size())};
}

std::string DeviceClock::name() const { return recorder_ ? "cupti" : "graph"; }

std::string DeviceClock::description() const {
    return recorder_ ? recorder_->name() + "'s records of kernels and copies" : "differences of graph replays";
}

}  // namespace tessera::bench
