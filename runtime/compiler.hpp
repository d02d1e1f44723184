#pragma once

#include <cstddef>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "dsl/base/target.hpp"
#include "dsl/ir/program.hpp"
#include "runtime/cache/bundle.hpp"
#include "runtime/cache/cubin_cache.hpp"
#include "runtime/compiled.hpp"
#include "runtime/counters.hpp"
#include "runtime/once_table.hpp"

namespace tessera::runtime {

/// CUDA text to machine code: the memory of this process, the disk cache, the bundle, then NVRTC. Needs no device and
/// no driver. Any thread may ask; kernels compile in parallel, each one once.
class Compiler {
public:
    explicit Compiler(CacheSettings settings = CacheSettings::from_environment());
    /// The one that all engines of the process use, with the settings of the environment at its first use.
    static Compiler& shared();

    /// Machine code of the kernel `name` in `cuda_text`. Counts in `counters` (and in its own). `driver_version`: of
    /// the driver that must load it, 0 if none. Errors: CompileError.
    std::shared_ptr<const Compiled> obtain(const std::string& name, std::string cuda_text, const Target& target,
                                           CounterSet& counters, int driver_version = 0);

    /// The same kernel compiled here, for a driver that refuses what the bundle has. Errors: CompileError.
    std::shared_ptr<const Compiled> replace(const Compiled& refused, CounterSet& counters, int driver_version = 0);

    CubinCache& cache() { return cache_; }
    Bundle& bundle() { return bundle_; }
    CounterSet& counters() { return counters_; }

    /// What NVRTC is told for a target.
    static std::vector<std::string> options_for(const Target& target);

private:
    struct DigestHash {
        std::size_t operator()(const Digest& d) const {
            std::size_t h = 0;
            std::memcpy(&h, d.data(), sizeof h);
            return h;
        }
    };

    /// Also notes in `wanted` the key and, with line information, the file that the text is to be kept in.
    CacheKey key_of(Compiled& wanted, const std::vector<std::string>& options, CounterSet& counters);
    std::shared_ptr<const Compiled> find_or_compile(Compiled wanted, const CacheKey& key,
                                                    const std::vector<std::string>& options, CounterSet& counters,
                                                    int driver_version);

    std::shared_ptr<const Compiled> compile(Compiled wanted, const CacheKey& key,
                                            const std::vector<std::string>& options, CounterSet& counters,
                                            int driver_version);

    CubinCache cache_;
    Bundle bundle_;
    CounterSet counters_;
    OnceTable<Digest, std::shared_ptr<const Compiled>, DigestHash> table_;
    OnceTable<Digest, std::shared_ptr<const Compiled>, DigestHash> replaced_;
};

/// The program lowered for a target; one that is lowered already is taken as it is.
std::shared_ptr<const ir::Program> lowered_for(const ir::Program& program, const Target& target, CounterSet& counters);

/// Prints a lowered program and obtains its machine code.
std::shared_ptr<const Compiled> compile_lowered(Compiler& compiler, const ir::Program& lowered, const Target& target,
                                                CounterSet& counters, int driver_version = 0);

}  // namespace tessera::runtime
