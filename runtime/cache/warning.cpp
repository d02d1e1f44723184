#include "runtime/cache/warning.hpp"

#include <atomic>
#include <cstdio>

namespace tessera::runtime {

void warn_about_cache(const std::string& why) noexcept {
    static std::atomic_flag said = ATOMIC_FLAG_INIT;
    if (said.test_and_set()) return;
    std::fprintf(
        stderr,
        "tessera: warning: %s. Kernels still work, but other processes will compile them again. Set "
        "TESSERA_CACHE_DIR to a writable folder of your own, or TESSERA_CACHE=off to say that this is wanted.\n",
        why.c_str());
}

void warn_about_bundle(const std::string& why) noexcept {
    static std::atomic_flag said = ATOMIC_FLAG_INIT;
    if (said.test_and_set()) return;
    std::fprintf(stderr,
                 "tessera: warning: %s. Its kernels are compiled here instead. Name a bundle that can be used in "
                 "TESSERA_CACHE_BUNDLE.\n",
                 why.c_str());
}

}  // namespace tessera::runtime
