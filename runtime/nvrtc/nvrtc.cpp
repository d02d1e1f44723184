#include "runtime/nvrtc/nvrtc.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include "dsl/base/error.hpp"
#include "runtime/nvrtc/find.hpp"

namespace tessera::runtime {

namespace fs = std::filesystem;

namespace {

/// NVRTC opens its builtins by name and finds them only on the loader path; one that is already loaded it takes.
void preload_builtins(const fs::path& folder) {
    std::error_code error;
    for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error))
        if (it->path().filename().native().starts_with("libnvrtc-builtins.so."))
            dlopen(it->path().c_str(), RTLD_LAZY | RTLD_LOCAL);
}

}  // namespace

const Nvrtc& Nvrtc::loaded() {
    const NvrtcSearch& search = nvrtc_search();
    if (!search.path) throw CompileError(search.problem);
    static const Nvrtc& library = *new Nvrtc(*search.path);  // threads may compile while the process ends
    return library;
}

Nvrtc::Nvrtc(const fs::path& library) : path_(library) {
    preload_builtins(library.parent_path());
    void* handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!handle)
        throw CompileError(fmt::format("NVRTC at {} does not load: {}; name another one in TESSERA_NVRTC",
                                       library.native(), dlerror()));
    const auto resolve = [&]<class F>(F*& entry, const char* symbol) {
        entry = reinterpret_cast<F*>(dlsym(handle, symbol));
        if (!entry)
            throw CompileError(
                fmt::format("NVRTC at {} is too old: it lacks {}; Tessera needs 12.0 (12.8 for sm_100a) or "
                            "newer",
                            library.native(), symbol));
    };
#define TESSERA_ENTRY(name, signature) resolve(entries_.name, "nvrtc" #name);
    TESSERA_NVRTC_ENTRIES(TESSERA_ENTRY)
#undef TESSERA_ENTRY
    resolve(entries_.GetErrorString, "nvrtcGetErrorString");

    int major = 0, minor = 0, count = 0;
    entries_.Version(&major, &minor);
    version_ = 1000 * major + 10 * minor;
    if (entries_.GetNumSupportedArchs(&count) == 0 && count > 0) {
        architectures_.resize(static_cast<std::size_t>(count));
        entries_.GetSupportedArchs(architectures_.data());
    }
}

Nvrtc::Outcome Nvrtc::compile(const std::string& text, const std::string& name,
                              std::span<const std::string> options) const {
    Outcome out;
    void* program = nullptr;
    const auto failed = [&](int result) {
        if (result == 0) return false;
        out.code = result;
        out.error = entries_.GetErrorString(result);
        return true;
    };
    const auto text_of = [&](auto size_entry, auto entry) {
        std::size_t size = 0;
        if (size_entry(program, &size) != 0 || size <= 1) return std::string();
        std::string content(size, '\0');
        entry(program, content.data());
        while (!content.empty() && content.back() == '\0') content.pop_back();
        return content;
    };
    if (failed(entries_.CreateProgram(&program, text.c_str(), (name + ".cu").c_str(), 0, nullptr, nullptr))) return out;
    std::vector<const char*> arguments;
    for (const std::string& option : options) arguments.push_back(option.c_str());
    // Where there is a driver, NVRTC keeps a cache of its own: its hits come without a log, and fail after a fork.
    arguments.push_back("--no-cache");
    const auto run = [&] {
        return entries_.CompileProgram(program, static_cast<int>(arguments.size()), arguments.data());
    };
    int result = run();
    if (result == invalid_option) {  // one that is too old for this option has no such cache
        arguments.pop_back();
        result = run();
    }
    out.ok = !failed(result);
    out.log = text_of(entries_.GetProgramLogSize, entries_.GetProgramLog);
    if (out.ok) {
        std::size_t size = 0;
        out.ok = !failed(entries_.GetCUBINSize(program, &size));
        out.cubin.resize(size);
        out.ok = out.ok && !failed(entries_.GetCUBIN(program, reinterpret_cast<char*>(out.cubin.data())));
        out.ptx = text_of(entries_.GetPTXSize, entries_.GetPTX);
    }
    entries_.DestroyProgram(&program);
    return out;
}

}  // namespace tessera::runtime
