#pragma once

#include <string>

#include "runtime/cache/file_ops.hpp"

namespace tessera::runtime {

/// Whose files and folders code is loaded from: the user's own, of a bundle root's too, for packages and container
/// images belong to root. Never what others can write.
enum class Trust { own, own_or_root };

/// Why code in a file or folder is not to be trusted, as the rest of a sentence; empty if it is.
std::string distrust(const struct stat& status, Trust trust, const FileOps& ops);

}  // namespace tessera::runtime
