#include "bench/cupti/busy_times.hpp"

#include <algorithm>

namespace tessera::bench::cupti {

std::vector<double> busy_times(std::span<const Activity> activities, int launches) {
    const auto count = static_cast<std::size_t>(launches);
    if (activities.empty() || activities.size() % count != 0) return {};
    const std::size_t each = activities.size() / count;
    std::vector<double> times;
    for (std::size_t first = 0; first < activities.size(); first += each) {
        std::uint64_t busy = 0, until = 0;
        for (const Activity& a : activities.subspan(first, each)) {
            const std::uint64_t begin = std::max(a.begin, until);
            if (a.end > begin) busy += a.end - begin;
            until = std::max(until, a.end);
        }
        times.push_back(static_cast<double>(busy) / 1000);
    }
    return times;
}

}  // namespace tessera::bench::cupti
