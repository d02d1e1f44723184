#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <csignal>
#include <memory>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include "dsl/base/error.hpp"
#include "tests/fake_gpu/support.hpp"
#include "tests/runtime/child.hpp"

using namespace tessera;

namespace {

// As in a program that keeps its state in static objects: made before the driver is, so destroyed after it.
struct Kept {
    std::unique_ptr<Engine> engine;
    std::unique_ptr<CompiledKernel> kernel;
    std::unique_ptr<Stream> stream;
    Tensor x, y;
} kept;

void use_driver() {
    const Device device = Device::cuda(0);
    kept.engine = std::make_unique<Engine>(device);
    kept.stream = std::make_unique<Stream>(device.stream());
    kept.kernel = std::make_unique<CompiledKernel>(kept.engine->compile(test::scale("kept")));
    kept.x = Tensor::zeros(*kept.stream, f32, {64});
    kept.y = Tensor::empty(*kept.stream, f32, {64});
    Tensor::empty(*kept.stream, f32, {500}), Tensor::empty(device, f32, {500});  // wait for the next
    kept.kernel->launch(*kept.stream, {kept.x, kept.y}, {Scalar("factor", 2.0f)});
}

template <class Body>
int status_in_child(Body&& body) {
    const pid_t child = fork();
    if (child == 0) _exit(body());
    int status = 0;
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace

TEST_CASE("child: static objects outlive the driver", "[.static-objects]") { use_driver(); }

TEST_CASE("static tensors, streams, kernels and engines are destroyed after the driver without harm") {
    CHECK(test::passes_in_new_process("[.static-objects]"));
}

TEST_CASE("child: a thread launches to the end", "[.late-thread]") {
    use_driver();
    static std::atomic<int> launches{0};
    std::thread([kernel = *kept.kernel, stream = *kept.stream, x = kept.x, y = kept.y] {
        while (true) {
            try {
                kernel.launch(stream, {x, y}, {Scalar("factor", 2.0f)});
                Engine::of(stream).prepare(KernelId("late", {launches.load()}), [] { return test::scale("late"); });
                ++launches;
            } catch (const Error&) {
                // The driver has shut down: a sentence, as for any failed call.
                while (true) pause();
            }
        }
    }).detach();
    while (launches < 100) std::this_thread::yield();
}

TEST_CASE("a process may end while a thread still launches and compiles") {
    for (int i = 0; i < 10; ++i) CHECK(test::passes_in_new_process("[.late-thread]"));
}

TEST_CASE("child: a fork after use", "[.fork]") {
    use_driver();
    // The driver of the tests aborts a child that calls it.
    CHECK(status_in_child([] {
              int refused = 0;
              try {
                  Device::best();
              } catch (const UsageError&) {
                  ++refused;
              }
              try {
                  kept.kernel->launch(*kept.stream, {kept.x, kept.y}, {Scalar("factor", 2.0f)});
              } catch (const UsageError&) {
                  ++refused;
              }
              try {
                  Tensor::zeros(*kept.stream, f32, {64});
              } catch (const UsageError&) {
                  ++refused;
              }
              try {
                  kept.stream->synchronize();
              } catch (const UsageError&) {
                  ++refused;
              }
              kept = Kept{};  // gives nothing back to a driver that is the parent's
              return refused;
          }) == 4);
    CHECK(status_in_child([] {
              const Compiled made = compile_for(test::scale("in_the_child"), Target::h200());
              Engine host(Device::host());
              const Tensor x = Tensor::zeros(Device::host(), f32, {8});
              host.compile(test::scale("in_the_child"))
                  .launch(Stream::default_of(Device::host()), {x, Tensor::empty(Device::host(), f32, {8})},
                          {Scalar("factor", 1)});
              return made.cubin.empty() ? 1 : 7;
          }) == 7);
    kept.kernel->launch(*kept.stream, {kept.x, kept.y}, {Scalar("factor", 2.0f)});
}

TEST_CASE("after a fork the child is told so and calls no driver; it compiles and runs on the host (C36)") {
    CHECK(test::passes_in_new_process("[.fork]"));
}
