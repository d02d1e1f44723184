#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <vector>

#include "dsl/ir/ops.hpp"

namespace tessera::emit {

enum class AccessKind : std::uint8_t {
    load_read_only,  // global memory that nobody writes while the kernel runs
    load,            // global
    load_shared,
    store,  // global
    store_shared,
    add,  // global, atomic
    add_shared,
};

enum class WordType : std::uint8_t { u32, i32, f32, u64, i64, f64 };

/// The word type with this C++ spelling (see word_type()).
WordType word_type_of(const char* spelling);
const char* spelling_of(WordType type);
constexpr int bytes_of(WordType type) { return type >= WordType::u64 ? 8 : 4; }

/// One device function: moves `bytes` consecutive bytes between memory and registers. 1 and 2 bytes use the low bits of
/// one 32-bit word.
struct MemoryHelper {
    AccessKind access;
    bool predicated;  // takes `bool in` first; a load, `fill` last
    int bytes;        // 1, 2, 4, 8, 16, 32
    WordType word;
    ir::Cache cache = ir::Cache::normal;  // global memory only

    int words() const { return bytes <= bytes_of(word) ? 1 : bytes / bytes_of(word); }
    friend auto operator<=>(const MemoryHelper&, const MemoryHelper&) = default;
};

/// "load_16", "store_shared_8_if" …; functions for other word types are overloads.
std::string name_of(const MemoryHelper& helper);
std::string text_of(const MemoryHelper& helper);

/// Names of all that there can be.
std::vector<std::string> all_memory_helper_names();

}  // namespace tessera::emit
