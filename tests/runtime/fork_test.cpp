#include <catch2/catch.hpp>
#include <cstring>
#include <sys/wait.h>
#include <unistd.h>

#include "dsl/base/error.hpp"
#include "runtime/driver/fork_guard.hpp"

using namespace tessera;

namespace {

/// Exit status of `body` in a forked child.
template <class Body>
int status_in_child(Body&& body) {
    const pid_t child = fork();
    if (child == 0) _exit(body());
    int status = 0;
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

int refused() {
    try {
        runtime::refuse_if_forked();
        return 10;
    } catch (const UsageError& error) {
        return std::strstr(error.what(), "forked after its parent had used the GPU") &&
                       std::strstr(error.what(), "exec")
                   ? 11
                   : 12;
    }
}

}  // namespace

// In a child of its own, because the guard stays armed.
TEST_CASE("a fork before the driver is used harms nothing, one after it is refused in the child alone") {
    CHECK(status_in_child([] {
              if (status_in_child(refused) != 10) return 1;
              runtime::arm_fork_guard();
              runtime::arm_fork_guard();
              if (runtime::forked_after_use() || refused() != 10) return 2;
              if (status_in_child(refused) != 11) return 3;
              return refused() == 10 ? 0 : 4;
          }) == 0);
}
