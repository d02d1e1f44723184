#include <catch2/catch.hpp>
#include <cstring>
#include <sys/wait.h>
#include <unistd.h>

#include "dsl/base/error.hpp"
#include "runtime/driver/fork_guard.hpp"
#include "tests/runtime/child.hpp"

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

// In a process of its own, where nothing has used the driver yet.
TEST_CASE("the guard", "[.fork-guard]") {
    CHECK(status_in_child(refused) == 10);
    runtime::arm_fork_guard();
    runtime::arm_fork_guard();
    CHECK_FALSE(runtime::forked_after_use());
    CHECK(refused() == 10);
    CHECK(status_in_child(refused) == 11);
    CHECK(refused() == 10);
}

TEST_CASE("a fork before the driver is used harms nothing, one after it is refused in the child alone") {
    CHECK(test::passes_in_new_process("[.fork-guard]"));
}
