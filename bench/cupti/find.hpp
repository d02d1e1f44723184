#pragma once

#include <filesystem>

namespace tessera::bench::cupti {

/// libcupti, looked for as libnvrtc is: the setting TESSERA_CUPTI, the program's folder and its cupti/, the loader
/// path, toolkit folders, Python wheels. Errors: UsageError if there is none.
std::filesystem::path find_library();

}  // namespace tessera::bench::cupti
