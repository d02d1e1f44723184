#pragma once

#include <functional>

namespace tessera {

/// Makes ready what `body` launches, and launches nothing: every kernel that this thread would start inside of it, by a
/// function of the library or by CompiledKernel::launch, is recorded, compiled and loaded, and its arguments are
/// checked. Tensors need no content; what `body` itself allocates, copies or clears is done. At start-up it takes the
/// compile times out of the first requests, and before a stream capture it is what makes the capture possible:
///
///     prepare([&] { quant::per_token_cast(stream, x, data, sf); });
///
/// Errors: those of `body`.
void prepare(const std::function<void()>& body);

namespace runtime {
/// True inside of `prepare` on this thread.
bool only_preparing();
}  // namespace runtime

}  // namespace tessera
