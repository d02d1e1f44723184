#pragma once

namespace tessera::test {

/// How often this thread took memory by operator new since the program began.
long allocations_of_thread();

}  // namespace tessera::test
