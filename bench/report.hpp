#pragma once

#include <string>
#include <vector>

#include "bench/runner.hpp"

namespace tessera::bench {

/// Head and rows of a table that fits a terminal of 120 columns.
std::string table_head();
std::string table_row(const Row& row);

/// Replaces the file as a whole. Errors: UsageError if it cannot be written; the old one stays.
void write_json(const std::string& path, const std::string& device, const std::vector<Row>& rows);

/// A case that became slower than in an older file by more than the noise of both.
struct Regression {
    const Row* row;
    double ratio;  // of times relative to the copy of the same run
    double noise;
};
/// Errors: UsageError if the file cannot be read, has another form, or its times are by another clock.
std::vector<Regression> compare(const std::string& path, const std::vector<Row>& rows);

}  // namespace tessera::bench
