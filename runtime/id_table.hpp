#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "runtime/compiled_kernel.hpp"
#include "runtime/kernel_id.hpp"

namespace tessera::runtime {

/// A kernel under the id it was asked for; what a look-up reads comes first.
struct alignas(64) IdEntry {
    CompiledKernel kernel;
    const char*
        literal;  // where the name lay when it was asked for: a quick yes, never read; null if it was no literal
    KernelId id;  // its name points to `name`
    std::string name;

    IdEntry(const KernelId& asked, CompiledKernel made)
        : kernel(std::move(made)), literal(asked.literal ? asked.name : nullptr), id(asked), name(asked.name) {
        id.name = name.c_str();
    }
    bool is_of(const KernelId& asked) const;
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
