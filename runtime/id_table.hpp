#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "runtime/compiled_kernel.hpp"
#include "runtime/kernel_id.hpp"

namespace tessera::runtime {

/// A kernel under the id it was asked for.
struct IdEntry {
    std::string name;
    KernelId id;  // its name points to `name`
    CompiledKernel kernel;

    IdEntry(const KernelId& asked, CompiledKernel made) : name(asked.name), id(asked), kernel(std::move(made)) {
        id.name = name.c_str();
    }
};

bool same_id(const KernelId& a, const KernelId& b);

/// Kernels by id. Looking up takes no lock and writes nothing; entries stay where they are for the table's life.
class IdTable {
public:
    IdTable();
    const CompiledKernel* find(const KernelId& id) const;
    /// The entry that is in the table afterwards: this one, or an equal one that was there before.
    const CompiledKernel& insert(const KernelId& id, CompiledKernel kernel);

private:
    struct Slots {
        explicit Slots(std::size_t size)
            : mask(size - 1), slot(std::make_unique<std::atomic<const IdEntry*>[]>(size)) {}
        void put(const IdEntry* entry);
        std::size_t mask;  // size − 1; the size is a power of two, and at least half of the slots are empty
        std::unique_ptr<std::atomic<const IdEntry*>[]> slot;
    };

    std::atomic<const Slots*> slots_;
    std::mutex mutex_;                                 // of those who insert
    std::vector<std::unique_ptr<Slots>> generations_;  // old ones too: somebody may be reading
    std::vector<std::unique_ptr<const IdEntry>> entries_;
};

}  // namespace tessera::runtime
