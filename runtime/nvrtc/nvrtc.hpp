#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace tessera::runtime {

// name in the table, signature of what returns an nvrtcResult; the symbol is "nvrtc" and the name
#define TESSERA_NVRTC_ENTRIES(ENTRY)                                                                      \
    ENTRY(Version, (int*, int*))                                                                          \
    ENTRY(GetNumSupportedArchs, (int*))                                                                   \
    ENTRY(GetSupportedArchs, (int*))                                                                      \
    ENTRY(CreateProgram, (void**, const char*, const char*, int, const char* const*, const char* const*)) \
    ENTRY(DestroyProgram, (void**))                                                                       \
    ENTRY(CompileProgram, (void*, int, const char* const*))                                               \
    ENTRY(GetCUBINSize, (void*, std::size_t*))                                                            \
    ENTRY(GetCUBIN, (void*, char*))                                                                       \
    ENTRY(GetPTXSize, (void*, std::size_t*))                                                              \
    ENTRY(GetPTX, (void*, char*))                                                                         \
    ENTRY(GetProgramLogSize, (void*, std::size_t*))                                                       \
    ENTRY(GetProgramLog, (void*, char*))

/// libnvrtc, loaded by its path. Compiles in parallel from any threads.
class Nvrtc {
public:
    static constexpr int invalid_option = 5, builtins_failed = 7;  // of nvrtcResult

    /// The library that the search found, loaded at the first call. Errors: CompileError if there is none or it does
    /// not load.
    static const Nvrtc& loaded();

    /// Loads `library` and, before, the builtins that lie beside it. Errors: CompileError.
    explicit Nvrtc(const std::filesystem::path& library);

    struct Outcome {
        bool ok = false;
        int code = 0;       // nvrtcResult
        std::string error;  // NVRTC's name for what went wrong
        std::vector<std::byte> cubin;
        std::string ptx, log;
    };
    /// `name` stands for the file where the text has no #line.
    Outcome compile(const std::string& text, const std::string& name, std::span<const std::string> options) const;

    const std::filesystem::path& path() const { return path_; }
    /// 1000 · major + 10 · minor, as the driver counts.
    int version() const { return version_; }
    /// The architectures it compiles for: 90, 100, …
    const std::vector<int>& architectures() const { return architectures_; }

private:
    struct Entries {
#define TESSERA_ENTRY(name, signature) int(*name) signature = nullptr;
        TESSERA_NVRTC_ENTRIES(TESSERA_ENTRY)
#undef TESSERA_ENTRY
        const char* (*GetErrorString)(int) = nullptr;
    };
    std::filesystem::path path_;
    Entries entries_;
    int version_ = 0;
    std::vector<int> architectures_;
};

}  // namespace tessera::runtime
