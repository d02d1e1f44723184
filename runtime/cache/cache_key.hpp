#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/cache/digest.hpp"

namespace tessera::runtime {

/// Part of every key and entry; raised whenever the meaning of either changes.
inline constexpr int cache_format = 1;

/// The name of a compiled kernel: a pure function of what decides its machine code.
struct CacheKey {
    std::string text;  // everything but the CUDA text, in readable lines; stored in the entry and compared on loading
    Digest digest{};   // of `text` and the CUDA text

    /// 32 hexadecimal digits.
    std::string hex() const;
    friend bool operator==(const CacheKey&, const CacheKey&) = default;
};

/// The key of a compilation. Comments, blank lines and #line do not count, unless line information is compiled in
/// (-lineinfo, -G or a text that mentions __LINE__): then the lines do. `target` is the full name such as "sm_90a";
/// `nvrtc_identity` names the compiler (library_identity); `options` are normalised first.
CacheKey make_key(std::string_view cuda_text, std::string_view target, std::string_view nvrtc_identity,
                  std::span<const std::string> options);

/// Options in one spelling and order: trimmed, two dashes, long names, sorted by name, each once; those that say what
/// NVRTC does anyway are dropped. Of options that contradict each other the order is kept, for the last one wins.
std::vector<std::string> normalised_options(std::span<const std::string> options);

}  // namespace tessera::runtime
