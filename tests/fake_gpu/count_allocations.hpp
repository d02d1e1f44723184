#pragma once

// The thread sanitizer has operators new of its own, which nobody can replace. gcc tells of it by a macro, clang by a
// feature.
#if defined(__SANITIZE_THREAD__)
#define TESSERA_THREAD_SANITIZER
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define TESSERA_THREAD_SANITIZER
#endif
#endif

namespace tessera::test {

/// How often this thread took memory by operator new since the program began; under the thread sanitizer 0.
long allocations_of_thread();

}  // namespace tessera::test
