#pragma once

#include <limits>
#include <string>

#include "runtime/cache/file_ops.hpp"

namespace tessera::test {

/// The calls of a FileOps, each with a bit; `all` are those of an operating system that fails altogether.
namespace call {
inline constexpr unsigned open = 1, create = 2, read_at = 4, write = 8, flush = 16, close = 32, status = 64,
                          status_of_path = 128, rename = 256, remove_file = 512, remove_folder = 1024,
                          make_folder = 2048, list_folder = 4096, set_stamp = 8192, link = 16384, all = 32767;
}

/// What goes wrong in faulty_ops: calls of the kinds `calls`, counted from 1, fail with `error` from the `first` to the
/// `last`.
struct Fault {
    unsigned calls = 0;
    int error = 0;
    int first = 1;
    int last = std::numeric_limits<int>::max();
    bool is_short = false;      // reads end and writes stop after some bytes; `error` comes at the next call
    bool unnamed_files = true;  // false: a file system that has none
    int count = 0;              // of such calls until now
};
extern Fault fault;

/// The operating system with `fault` in it; without a fault, too, a write takes 1000 bytes at most.
runtime::FileOps faulty_ops();

}  // namespace tessera::test
