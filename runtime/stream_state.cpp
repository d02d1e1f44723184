#include "runtime/stream_state.hpp"

#include "dsl/base/error.hpp"
#include "runtime/device_state.hpp"
#include "runtime/driver/driver.hpp"
#include "runtime/driver/fork_guard.hpp"
#include "runtime/settings.hpp"

namespace tessera::runtime {

StreamState::StreamState(DeviceState& device, void* handle, void* context, Owner owner, std::int64_t memory_limit)
    : memory(memory_limit),
      device_(device),
      handle_(handle),
      context_(context),
      context_number_(device.context_number()),
      owner_(owner) {
    device_.add_stream(*this);
}

bool StreamState::is_gone() const { return forked_after_use() || context_number_ != device_.context_number(); }

void StreamState::release_memory() noexcept {
    if (is_gone()) return;
    try {
        const CurrentContext current(context_);
        if (is_capturing(handle_)) return;
        while (const std::optional<Piece> piece = memory.let_go_of_oldest()) driver().api.free(piece->address, handle_);
    } catch (const Error&) {
        // The driver has shut down and took the memory along.
    }
}

StreamState::~StreamState() {
    if (forked_after_use()) return;  // the list's lock may have been held when the process was forked
    device_.remove_stream(*this);
    release_memory();
    if (is_gone()) return;
    try {
        const CurrentContext current(context_);
        if (owner_ == Owner::tessera) driver().api.stream_destroy(handle_);
        // Of a stream that was captured to its end: the default stream comes after all its work.
        while (const std::optional<Piece> piece = memory.let_go_of_oldest())
            device_.free_later({piece->address, nullptr, context_, nullptr});
    } catch (const Error&) {
        // The driver has shut down; the stream went with it.
    }
}

std::int64_t stream_memory_limit() { return setting_bytes("TESSERA_MEMORY_CACHE"); }

}  // namespace tessera::runtime
