#include "bench/report.hpp"

#include <fmt/format.h>

namespace tessera::bench {

std::string table_head() {
    return fmt::format("{:<58} {:>8} {:>6} {:>6} {:>6} {:>6} {:>4} {:>5} {:>5}\n", "case", "us", "GB/s", "copy%",
                       "goal", "ref", "reg", "JIT", "host");
}

std::string table_row(const Row& row) {
    std::string name = row.kernel + " " + row.name;
    std::string text;
    if (name.size() > 58) {  // a long name takes a line of its own
        text = name + "\n";
        name.clear();
    }
    const auto ratio = [&](const std::optional<double>& other) {
        return other ? fmt::format("{:.2f}", row.time.microseconds / *other) : std::string("-");
    };
    return text + fmt::format(
                      "{:<58} {:>8.1f} {:>6.0f} {:>5.0f}% {:>6} {:>6} {:>4} {:>5} {:>5.1f}\n", name,
                      row.time.microseconds, row.gigabytes_per_second(), 100 * row.of_copy(), ratio(row.goal_us),
                      ratio(row.reference_us),
                      row.registers ? fmt::format("{}{}", *row.registers, row.stack_bytes.value_or(0) ? "!" : "") : "-",
                      row.compile_ms > 0 ? fmt::format("{:.0f}", row.compile_ms) : "-", row.launch_us);
}

}  // namespace tessera::bench
