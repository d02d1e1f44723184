#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

namespace tessera::test {

/// check(i) for every i < count, by up to 12 threads: most of a check of a new program is its compilation, on one core.
/// Gives what each said, by i; of one that threw, the sentence.
std::vector<std::string> in_parallel(std::size_t count, const std::function<std::string(std::size_t)>& check);

}  // namespace tessera::test
