#pragma once

#include <string>

namespace tessera::runtime {

/// Says on stderr, once in a process and never again, why the disk cache is not used to the full. `why` is a clause
/// such as "/x cannot be written (Permission denied)"; what follows from it and the cure are added.
void warn_about_cache(const std::string& why) noexcept;

/// The same for what a bundle does not serve.
void warn_about_bundle(const std::string& why) noexcept;

}  // namespace tessera::runtime
