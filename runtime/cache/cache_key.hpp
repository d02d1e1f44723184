#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/cache/digest.hpp"

namespace tessera::runtime {

/// Part of every key and entry; raised whenever the meaning of either changes.
inline constexpr int cache_format = 2;

/// The name of a compiled kernel: a pure function of what decides its machine code.
struct CacheKey {
    std::string
        text;  // all of it in readable lines, the CUDA text as its digest; kept in the entry, compared on loading
    Digest digest{};  // of `text`

    /// 32 hexadecimal digits.
    std::string hex() const;
    friend bool operator==(const CacheKey&, const CacheKey&) = default;
};

/// The key of a compilation. Comments, blank lines and #line do not count, unless line information is compiled in
/// (-lineinfo, -G or a text that mentions __LINE__): then the lines do. `target` is the full name such as "sm_90a";
/// `nvrtc_identity` names the compiler (library_identity); `options` are normalised first.
CacheKey make_key(std::string_view cuda_text, std::string_view target, std::string_view nvrtc_identity,
                  std::span<const std::string> options);

/// The key that an entry's text stands for.
CacheKey key_of_text(std::string text);

/// A key's text without the line that names the compiler: the same for a kernel whatever NVRTC made its machine code.
std::string portable_text(std::string_view key_text);

/// What a line of a key's text says: "sm_90a" of "target"; empty if there is no such line.
std::string line_of_key(std::string_view key_text, std::string_view name);

/// Options in one spelling and order: trimmed, two dashes, long names, sorted by name, each once; those that say what
/// NVRTC does anyway are dropped. Of options that contradict each other the order is kept, for the last one wins.
std::vector<std::string> normalised_options(std::span<const std::string> options);

}  // namespace tessera::runtime
