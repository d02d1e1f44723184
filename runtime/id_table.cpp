#include "runtime/id_table.hpp"

#include <cstring>

#include "dsl/base/error.hpp"

namespace tessera {

namespace {
constexpr std::uint64_t odd = 0x9E3779B97F4A7C15u;

/// A polynomial in the values; `spread` brings what is in its high bits down.
std::uint64_t mix(std::uint64_t h, std::uint64_t value) { return h * odd + value; }

std::uint64_t spread(std::uint64_t h) {
    h = (h ^ (h >> 32)) * odd;
    return h ^ (h >> 32);
}
}  // namespace

KernelId::KernelId(const char* id_name, std::initializer_list<KernelOption> given) : name(id_name) {
    if (given.size() > most_options)
        throw UsageError(std::string("the id of kernel ") + id_name + " has " + std::to_string(given.size()) +
                         " options; at most 12 fit: pack flags into one number");
    hash = given.size();
    for (const KernelOption& option : given) {
        options[count++] = option.bits;
        hash = mix(hash, option.bits);
    }
    std::size_t left = std::strlen(name);
    for (const char* at = name; left > 0;) {
        std::uint64_t piece = 0;
        const std::size_t bytes = left < 8 ? left : 8;
        std::memcpy(&piece, at, bytes);
        hash = mix(hash, piece);
        at += bytes, left -= bytes;
    }
    hash = spread(hash);
}

namespace runtime {

bool same_id(const KernelId& a, const KernelId& b) {
    if (a.hash != b.hash || a.count != b.count) return false;
    std::uint64_t difference = 0;
    for (std::uint32_t i = 0; i < a.count; ++i) difference |= a.options[i] ^ b.options[i];
    return difference == 0 && std::strcmp(a.name, b.name) == 0;
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
        if (same_id(entry->id, id)) return &entry->kernel;
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
