#include "runtime/compile_error.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <fstream>
#include <sstream>
#include <unistd.h>

#include "dsl/base/error.hpp"
#include "runtime/driver/driver.hpp"

namespace tessera::runtime {

namespace fs = std::filesystem;

namespace {

/// Puts the text into a new folder of the system's temporary one; says where, or why not.
std::string keep_source(const Compiled& wanted) {
    std::error_code error;
    const fs::path temporary = fs::temp_directory_path(error);
    std::string folder = (error ? fs::path("/tmp") : temporary) / "tessera-XXXXXX";
    if (!mkdtemp(folder.data())) return "(the text could not be kept: no folder for temporary files can be written)";
    const fs::path path = fs::path(folder) / (wanted.kernel + ".cu");
    std::ofstream file(path, std::ios::binary);
    file << wanted.cuda_text << std::flush;
    return file ? path.native() : "(the text could not be kept: " + path.native() + " cannot be written)";
}

/// The first errors, each with the two lines that show the place.
std::string first_diagnostics(const std::string& log) {
    constexpr int most = 5;
    std::istringstream lines(log);
    std::string text;
    int errors = 0, context = 0;
    for (std::string line; std::getline(lines, line);) {
        if (line.find("error") != std::string::npos && line.find("detected in the compilation") == std::string::npos) {
            if (++errors > most) break;
            context = 3;
        }
        if (context > 0 && !line.empty()) text += "  " + line + "\n";
        --context;
    }
    return text.empty() ? log.substr(0, 2000) : text;
}

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

/// The three that must fit each other, at the end of a sentence about one that does not.
std::string versions_text(const Nvrtc& nvrtc, const Target& target, int driver_version) {
    return fmt::format("(driver: {}; NVRTC: {} at {}; target: {})",
                       driver_version == 0 ? "none" : version_text(driver_version), version_text(nvrtc.version()),
                       nvrtc.path().native(), target.arch());
}

}  // namespace

void refuse_text(const Compiled& wanted, const Nvrtc& nvrtc, std::span<const std::string> options,
                 const Nvrtc::Outcome& outcome) {
    throw CompileError(fmt::format(
        "kernel {} does not compile for {}: {}\n{}compiler: NVRTC {} at {}\noptions:  {}\ntext:     {}", wanted.kernel,
        wanted.target.arch(), outcome.error, first_diagnostics(outcome.log), version_text(nvrtc.version()),
        nvrtc.path().native(), fmt::join(options, " "), keep_source(wanted)));
}

void check_versions(const Nvrtc& nvrtc, const Target& target, int driver_version) {
    const std::vector<int>& known = nvrtc.architectures();
    if (std::find(known.begin(), known.end(), target.sm) == known.end())
        throw CompileError(fmt::format(
            "NVRTC {} is too old for {}: it knows {}; install a newer one that the driver follows, such as the Python "
            "wheel nvidia-cuda-nvrtc==13.0.88, and name its folder in TESSERA_NVRTC {}",
            version_text(nvrtc.version()), target.arch(), fmt::join(known, ", "),
            versions_text(nvrtc, target, driver_version)));
    if (driver_version != 0 && nvrtc.version() / 1000 > driver_version / 1000)
        throw CompileError(fmt::format(
            "NVRTC {} is newer than the driver, which loads nothing beyond {}: upgrade the driver, or name an NVRTC of "
            "its version in TESSERA_NVRTC {}",
            version_text(nvrtc.version()), version_text(driver_version), versions_text(nvrtc, target, driver_version)));
}

void check_compiler(const Nvrtc& nvrtc, const Target& target, int driver_version, std::span<const std::string> options,
                    const Nvrtc::Outcome& outcome) {
    const std::string versions = versions_text(nvrtc, target, driver_version);
    if (outcome.code == Nvrtc::builtins_failed || outcome.log.find("libnvrtc-builtins") != std::string::npos)
        throw CompileError(fmt::format(
            "NVRTC {} does not find its builtins, the library libnvrtc-builtins.so of its very version: put "
            "it into {}, from where NVRTC came, or name a complete NVRTC in TESSERA_NVRTC; it says: {} {}",
            version_text(nvrtc.version()), nvrtc.path().parent_path().native(),
            outcome.log.empty() ? outcome.error : first_line(outcome.log), versions));
    if (outcome.code == Nvrtc::invalid_option)
        throw CompileError(fmt::format(
            "NVRTC {} does not know one of the options {}: Tessera needs 12.0 (12.8 for sm_100a) or newer; name one in "
            "TESSERA_NVRTC {}",
            version_text(nvrtc.version()), fmt::join(options, " "), versions));
}

}  // namespace tessera::runtime
