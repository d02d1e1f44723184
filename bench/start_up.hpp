#pragma once

#include <string>
#include <vector>

#include "runtime/device.hpp"

namespace tessera::bench {

/// What the first launch of a kernel took in a new process, in milliseconds; the driver was up before.
struct StartUp {
    double record = 0, lower = 0, emit = 0;
    double digest = 0;            // the compiler's identity and the key
    double disk = 0;              // reading and checking the cache entry
    double load = 0, launch = 0;  // 0 on the host, where nothing is loaded or started
    double compile = 0;           // 0: the cache was warm
    double total = 0;
};

/// Kernels that a start-up is measured for.
std::vector<std::string> start_up_kernels();

/// Measures this very process, once: nothing may have been launched or compiled before.
/// On the host device everything up to the cubin in memory is done, for the device's target.
/// Errors: UsageError for a name that start_up_kernels lacks.
StartUp start_up_here(const Device& device, const std::string& kernel);

/// A line that carries the numbers from one process to another, and back. Errors: UsageError for another text.
std::string start_up_line(const StartUp& times);
StartUp start_up_from(const std::string& line);

/// The table: medians over processes, each row a kernel.
std::string start_up_head();
std::string start_up_row(const std::string& kernel, const std::vector<StartUp>& processes);

}  // namespace tessera::bench
