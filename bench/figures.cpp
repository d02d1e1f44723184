#include <algorithm>
#include <fmt/format.h>
#include <fstream>
#include <nlohmann/json.hpp>
#include <span>

#include "bench/report.hpp"
#include "dsl/base/error.hpp"
#include "runtime/output_file.hpp"

namespace tessera::bench {

extern const char* const reference_json;  // bench/reference.json, built in

namespace {

nlohmann::json read(const std::string& path) {
    std::ifstream file(path);
    if (!file) throw UsageError(fmt::format("{} cannot be opened; name a readable JSON file", path));
    const auto json = nlohmann::json::parse(file, nullptr, false);
    if (!json.is_array())
        throw UsageError(
            fmt::format("{} is not a JSON list of rows; give a file that `tessera bench --json` wrote", path));
    return json;
}

template <class T>
T field(const nlohmann::json& row, const char* name, const std::string& path) {
    const auto it = row.find(name);
    if (it == row.end())
        throw UsageError(fmt::format("{}: a row has no \"{}\"; the file is of another form", path, name));
    try {
        return it->get<T>();
    } catch (const nlohmann::json::exception&) {
        throw UsageError(fmt::format("{}: \"{}\" has the wrong type", path, name));
    }
}

/// Times of one clock contain what those of the other do not.
void refuse_other_clock(const nlohmann::json& old, const Row& row, const std::string& path) {
    const std::string clock = old.contains("clock") ? field<std::string>(old, "clock", path) : "graph";
    if (clock != row.clock)
        throw UsageError(
            fmt::format("{}: its times are by the clock \"{}\", and these by \"{}\"; measure with --clock {}", path,
                        clock, row.clock, clock));
}

}  // namespace

Figures::Figures() {
    const std::string path = "bench/reference.json";
    for (const auto& row : nlohmann::json::parse(reference_json))
        figures_[{field<std::string>(row, "kernel", path), field<std::string>(row, "case", path)}] = {
            field<double>(row, "reference_us", path), field<double>(row, "goal_us", path)};
}

void Figures::fill(Row& row) const {
    const auto it = figures_.find({row.kernel, row.name});
    if (it == figures_.end()) return;
    row.reference_us = it->second.first;
    row.goal_us = it->second.second;
}

void write_json(const std::string& path, const std::string& device, const std::vector<Row>& rows) {
    nlohmann::json all = nlohmann::json::array();
    for (const Row& r : rows) {
        nlohmann::json row = {{"kernel", r.kernel},         {"case", r.name},       {"device", device},
                              {"bytes", r.bytes},           {"sets", r.sets},       {"us", r.time.microseconds},
                              {"spread", r.time.spread},    {"copy_us", r.copy_us}, {"launch_us", r.launch_us},
                              {"compile_ms", r.compile_ms}, {"clock", r.clock}};
        if (r.registers) row["registers"] = *r.registers;
        if (r.stack_bytes) row["stack_bytes"] = *r.stack_bytes;
        if (r.reference_us) row["reference_us"] = *r.reference_us;
        if (r.goal_us) row["goal_us"] = *r.goal_us;
        all.push_back(std::move(row));
    }
    const std::string text = all.dump(1) + "\n";
    OutputFile file(path, true);
    file.write_at(0, std::as_bytes(std::span(text)));
    file.publish();
}

std::vector<Regression> compare(const std::string& path, const std::vector<Row>& rows) {
    std::vector<Regression> slower;
    for (const auto& old : read(path))
        for (const Row& r : rows) {
            if (field<std::string>(old, "kernel", path) != r.kernel || field<std::string>(old, "case", path) != r.name)
                continue;
            refuse_other_clock(old, r, path);
            // Against the copy of each run, so that a faster or slower machine does not count; noise of both runs does.
            const double before = field<double>(old, "us", path) / field<double>(old, "copy_us", path);
            const double now = r.time.microseconds / r.copy_us;
            const double noise = std::max(0.03, 2 * (field<double>(old, "spread", path) + r.time.spread));
            if (now > before * (1 + noise) && (now - before) * r.copy_us > 0.5)
                slower.push_back({&r, now / before, noise});
        }
    return slower;
}

}  // namespace tessera::bench
