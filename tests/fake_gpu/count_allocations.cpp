#include "tests/fake_gpu/count_allocations.hpp"

#include <cstdlib>
#include <new>

// Every operator new of this program, its libraries included, comes through here; those that do not throw too, since
// a sanitizer brings its own of each that is not here, whose memory the deletes below must not free. The thread
// sanitizer lets nobody replace them.

namespace {
thread_local constinit long count = 0;

#ifndef TESSERA_THREAD_SANITIZER
void* counted(std::size_t bytes) {
    ++count;
    return std::malloc(bytes > 0 ? bytes : 1);
}
void* counted(std::size_t bytes, std::align_val_t alignment) {
    ++count;
    const auto unit = static_cast<std::size_t>(alignment);
    return std::aligned_alloc(unit, (bytes + unit - 1) / unit * unit);
}
void* not_null(void* memory) {
    if (memory == nullptr) throw std::bad_alloc();
    return memory;
}
#endif
}  // namespace

long tessera::test::allocations_of_thread() { return count; }

#ifndef TESSERA_THREAD_SANITIZER
void* operator new(std::size_t bytes) { return not_null(counted(bytes)); }
void* operator new[](std::size_t bytes) { return not_null(counted(bytes)); }
void* operator new(std::size_t bytes, std::align_val_t alignment) { return not_null(counted(bytes, alignment)); }
void* operator new[](std::size_t bytes, std::align_val_t alignment) { return not_null(counted(bytes, alignment)); }
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept { return counted(bytes); }
void* operator new[](std::size_t bytes, const std::nothrow_t&) noexcept { return counted(bytes); }
void* operator new(std::size_t n, std::align_val_t a, const std::nothrow_t&) noexcept { return counted(n, a); }
void* operator new[](std::size_t n, std::align_val_t a, const std::nothrow_t&) noexcept { return counted(n, a); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }
#endif
