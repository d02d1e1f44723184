#include "runtime/id_table.hpp"

#include <cstring>

#include "dsl/base/error.hpp"

namespace tessera {

void KernelId::refuse(const char* name, std::size_t options) {
    throw UsageError(std::string("the id of kernel ") + name + " has " + std::to_string(options) +
                     " options; at most 12 fit: pack flags into one number");
}

namespace runtime {

namespace {
bool same_options(const KernelId& a, const KernelId& b) {
    if (a.hash != b.hash || a.count != b.count) return false;
    std::uint64_t difference = 0;
    for (std::uint32_t i = 0; i < a.count; ++i) difference |= a.options[i] ^ b.options[i];
    return difference == 0;
}
}  // namespace

bool same_id(const KernelId& a, const KernelId& b) { return same_options(a, b) && std::strcmp(a.name, b.name) == 0; }

inline bool IdEntry::is_of(const KernelId& asked) const {
    if (!same_options(id, asked)) return false;
    return (asked.literal && asked.name == literal) || name == asked.name;
}

void IdTable::Slots::put(const IdEntry* entry) {
    std::size_t at = entry->id.hash & mask;
    while (slot[at].load(std::memory_order_relaxed)) at = (at + 1) & mask;
    slot[at].store(entry, std::memory_order_release);
}

IdTable::IdTable() {
    generations_.push_back(std::make_unique<Slots>(64));
    slots_ = generations_.back().get();
}

const CompiledKernel* IdTable::find(const KernelId& id) const {
    const Slots& slots = *slots_.load(std::memory_order_acquire);
    for (std::size_t at = id.hash & slots.mask;; at = (at + 1) & slots.mask) {
        const IdEntry* entry = slots.slot[at].load(std::memory_order_acquire);
        if (!entry) return nullptr;
        if (entry->is_of(id)) return &entry->kernel;
    }
}

const CompiledKernel& IdTable::insert(const KernelId& id, CompiledKernel kernel) {
    const std::lock_guard lock(mutex_);
    if (const CompiledKernel* there = find(id)) return *there;
    entries_.push_back(std::make_unique<const IdEntry>(id, std::move(kernel)));
    Slots* slots = generations_.back().get();
    if (entries_.size() * 2 > slots->mask) {
        generations_.push_back(std::make_unique<Slots>((slots->mask + 1) * 2));
        slots = generations_.back().get();
        for (const auto& entry : entries_) slots->put(entry.get());
        slots_.store(slots, std::memory_order_release);
    } else {
        slots->put(entries_.back().get());
    }
    return entries_.back()->kernel;
}

}  // namespace runtime
}  // namespace tessera
