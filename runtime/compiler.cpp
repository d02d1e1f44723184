#include "runtime/compiler.hpp"

#include <cstdio>
#include <fmt/format.h>
#include <fstream>

#include "dsl/base/error.hpp"
#include "dsl/emit/cuda.hpp"
#include "dsl/lower/lower.hpp"
#include "runtime/cache/folder.hpp"
#include "runtime/cache/log_line.hpp"
#include "runtime/compile_error.hpp"
#include "runtime/cubin.hpp"
#include "runtime/nvrtc/find.hpp"
#include "runtime/settings.hpp"

namespace tessera::runtime {

namespace {

void report(const Compiled& kernel, const char* how, double ms) {
    log_lookup(kernel.kernel, kernel.target.arch(), kernel.key, how, ms);
}

/// A copy of the text for people and profilers; that it cannot be written harms nothing.
void keep_text(const Compiled& kernel, const std::filesystem::path& path) {
    make_folders(path.parent_path().native(), real_file_ops());
    std::ofstream file(path, std::ios::binary);
    file << kernel.cuda_text << std::flush;
    if (!file)
        fmt::print(stderr, "tessera: {} cannot be written; name another folder in TESSERA_KEEP_SOURCE\n",
                   path.native());
}

std::string file_name(const Compiled& kernel, const CacheKey& key) {
    return fmt::format("{}-{}-{}.cu", kernel.kernel, kernel.target.arch(), key.hex().substr(0, 8));
}

/// What NVRTC reads. With line information, what is not the writer's line is one of the kept file: the text then names
/// it, and so does the key.
std::string text_for_nvrtc(const Compiled& wanted) {
    if (wanted.source.empty()) return wanted.cuda_text;
    return fmt::format("#line 1 \"{}\"\n{}", wanted.source, wanted.cuda_text);
}

Compiled compile_text(Compiled wanted, const std::vector<std::string>& options, int driver_version) {
    const Nvrtc& nvrtc = Nvrtc::loaded();
    check_versions(nvrtc, wanted.target, driver_version);
    Nvrtc::Outcome outcome = nvrtc.compile(text_for_nvrtc(wanted), wanted.kernel, options);
    if (outcome.ok && !looks_like_elf(outcome.cubin)) {
        outcome.ok = false;
        outcome.error = "what came out is no machine code";
    }
    if (!outcome.ok) {
        check_compiler(nvrtc, wanted.target, driver_version, options, outcome);
        refuse_text(wanted, nvrtc, options, outcome);
    }
    wanted.cubin = std::move(outcome.cubin);
    wanted.ptx = std::move(outcome.ptx);
    wanted.log = std::move(outcome.log);
    return wanted;
}

[[noreturn]] void refuse_without_nvrtc(const Compiled& wanted, Bundle& bundle) {
    std::string what = fmt::format("kernel {} cannot be compiled: {}", wanted.kernel, nvrtc_search().problem);
    if (!bundle.path().empty()) {
        const std::string& problem = bundle.problem();
        what += problem.empty() ? fmt::format(
                                      "; the bundle {} does not serve it for {}: add it with `tessera cache "
                                      "warm` and `tessera cache export` where there is a compiler",
                                      bundle.path(), wanted.target.arch())
                                : "; " + problem;
    }
    throw CompileError(what);
}

}  // namespace

Compiler::Compiler(CacheSettings settings) : cache_(settings), bundle_(settings.bundle) {}

Compiler& Compiler::shared() {
    static auto& compiler = *new Compiler;  // static objects may ask until the very end
    return compiler;
}

std::vector<std::string> Compiler::options_for(const Target& target) {
    std::vector<std::string> options = {std::string("--gpu-architecture=") + target.arch(), "--std=c++17",
                                        "--fmad=false", "--ptxas-options=-v"};
    if (setting_on("TESSERA_LINEINFO")) options.emplace_back("--generate-line-info");
    return options;
}

std::shared_ptr<const Compiled> Compiler::obtain(const std::string& name, std::string cuda_text, const Target& target,
                                                 CounterSet& counters, int driver_version) {
    Compiled wanted;
    wanted.kernel = name;
    wanted.target = target;
    wanted.cuda_text = std::move(cuda_text);
    const std::vector<std::string> options = options_for(target);
    const CacheKey key = key_of(wanted, options, counters);
    bool was_there = false;
    auto compiled = table_.get(
        key.digest, [&] { return find_or_compile(std::move(wanted), key, options, counters, driver_version); },
        &was_there);
    if (was_there) ++counters.memory_hits, ++counters_.memory_hits;
    return compiled;
}

CacheKey Compiler::key_of(Compiled& wanted, const std::vector<std::string>& options, CounterSet& counters) {
    const Stopwatch mine(counters.digest_ns), all(counters_.digest_ns);
    const auto key = [&] {
        return make_key(text_for_nvrtc(wanted), wanted.target.arch(), nvrtc_search().identity, options);
    };
    CacheKey made = key();
    auto folder = setting_path("TESSERA_KEEP_SOURCE");
    if (setting_on("TESSERA_LINEINFO")) {
        if (!folder && !cache_.settings().folder.empty()) folder = cache_.settings().folder / "source";
        if (folder) wanted.source = (*folder / file_name(wanted, made)).native();
        if (folder) made = key();
    }
    wanted.key = made.hex();
    return made;
}

std::shared_ptr<const Compiled> Compiler::find_or_compile(Compiled wanted, const CacheKey& key,
                                                          const std::vector<std::string>& options, CounterSet& counters,
                                                          int driver_version) {
    std::atomic<std::int64_t> spent{0};
    const Stopwatch watch(spent);
    if (!wanted.source.empty())
        keep_text(wanted, wanted.source);
    else if (const auto folder = setting_path("TESSERA_KEEP_SOURCE"))
        keep_text(wanted, *folder / file_name(wanted, key));
    const auto found = [&](std::optional<CachedCubin> kept, const char* where) {
        if (!kept || kept->kernel != wanted.kernel) return false;
        wanted.cubin = std::move(kept->cubin);
        wanted.ptx = std::move(kept->ptx);
        wanted.log = std::move(kept->log);
        report(wanted, where, static_cast<double>(watch.nanoseconds()) * 1e-6);
        return true;
    };
    const auto timed = [&](auto&& look) {
        const Stopwatch mine(counters.disk_ns), all(counters_.disk_ns);
        return look();
    };
    // Without a compiler there is no telling which entry of the folder is meant.
    if (nvrtc_search().path && found(timed([&] { return cache_.load(key); }), "disk hit")) {
        ++counters.disk_hits, ++counters_.disk_hits;
        return std::make_shared<const Compiled>(std::move(wanted));
    }
    if (found(timed([&] { return bundle_.find(key); }), "bundle hit")) {
        ++counters.bundle_hits, ++counters_.bundle_hits;
        wanted.from_bundle = true;
        return std::make_shared<const Compiled>(std::move(wanted));
    }
    ++counters.misses, ++counters_.misses;
    return compile(std::move(wanted), key, options, counters, driver_version);
}

std::shared_ptr<const Compiled> Compiler::compile(Compiled wanted, const CacheKey& key,
                                                  const std::vector<std::string>& options, CounterSet& counters,
                                                  int driver_version) {
    if (!nvrtc_search().path) refuse_without_nvrtc(wanted, bundle_);
    std::atomic<std::int64_t> spent{0};
    const Stopwatch watch(spent);
    {
        const Stopwatch mine(counters.compile_ns), all(counters_.compile_ns);
        ++counters.compiles, ++counters_.compiles;
        wanted = compile_text(std::move(wanted), options, driver_version);
    }
    report(wanted, "compiled", static_cast<double>(watch.nanoseconds()) * 1e-6);
    cache_.publish(key, {wanted.kernel, wanted.cubin, wanted.ptx, wanted.log});
    return std::make_shared<const Compiled>(std::move(wanted));
}

std::shared_ptr<const Compiled> Compiler::replace(const Compiled& refused, CounterSet& counters, int driver_version) {
    const std::vector<std::string> options = options_for(refused.target);
    Compiled wanted;
    wanted.kernel = refused.kernel;
    wanted.target = refused.target;
    wanted.cuda_text = refused.cuda_text;
    const CacheKey key = key_of(wanted, options, counters);
    auto made =
        replaced_.get(key.digest, [&] { return compile(std::move(wanted), key, options, counters, driver_version); });
    table_.set(key.digest, made);
    return made;
}

std::shared_ptr<const ir::Program> lowered_for(const ir::Program& program, const Target& target, CounterSet& counters) {
    if (program.stage == ir::Stage::lowered) return std::make_shared<const ir::Program>(program);
    const Stopwatch watch(counters.lower_ns);
    return std::make_shared<const ir::Program>(lower::lower(program, target));
}

std::shared_ptr<const Compiled> compile_lowered(Compiler& compiler, const ir::Program& lowered, const Target& target,
                                                CounterSet& counters, int driver_version) {
    std::string text;
    {
        const Stopwatch mine(counters.emit_ns), all(compiler.counters().emit_ns);
        text = emit::cuda_text(lowered, target);
    }
    return compiler.obtain(lowered.name, std::move(text), target, counters, driver_version);
}

}  // namespace tessera::runtime

namespace tessera {

Compiled compile_for(const Program& program, const Target& target) {
    runtime::Compiler& compiler = runtime::Compiler::shared();
    runtime::CounterSet ignored;  // the compiler keeps its own
    const auto lowered = runtime::lowered_for(program.ir(), target, compiler.counters());
    return *runtime::compile_lowered(compiler, *lowered, target, ignored);
}

Counters process_counters() { return runtime::Compiler::shared().counters().values(); }

}  // namespace tessera
