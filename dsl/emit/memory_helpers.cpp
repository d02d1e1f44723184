#include "dsl/emit/memory_helpers.hpp"

#include <cstring>
#include <fmt/format.h>

#include "dsl/base/error.hpp"
#include "dsl/emit/writer.hpp"

// Accesses are inline PTX: plain C++ has no 32-byte access, no way to say "read-only" about some of the bytes of a
// word, and under `if` becomes branches, between which loads do not overlap. With a PTX predicate all of them are in
// flight.

namespace tessera::emit {

namespace {

constexpr struct {
    const char* spelling;
    char constraint;
} word_types[] = {{"unsigned", 'r'},           {"int", 'r'},       {"float", 'f'},
                  {"unsigned long long", 'l'}, {"long long", 'l'}, {"double", 'd'}};

bool is_load(AccessKind access) { return access <= AccessKind::load_shared; }
bool is_shared(AccessKind access) {
    return access == AccessKind::load_shared || access == AccessKind::store_shared || access == AccessKind::add_shared;
}

/// "v4.b32", "u8": how much one instruction moves.
std::string ptx_type(const MemoryHelper& h) {
    if (h.bytes == 1) return "u8";
    if (h.bytes == 2) return "u16";
    const std::string scalar = bytes_of(h.word) == 8 ? "b64" : "b32";
    return h.words() == 1 ? scalar : fmt::format("v{}.{}", h.words(), scalar);
}

/// "{%2, %3}" or "%2"
std::string ptx_operands(int first, int count) {
    if (count == 1) return fmt::format("%{}", first);
    std::string out = "{";
    for (int i = 0; i < count; ++i) out += fmt::format("{}%{}", i == 0 ? "" : ", ", first + i);
    return out + "}";
}

/// The C++ side of a list of words: "a", "b" …, each after `before`, and followed by `after`.
std::string each_word(int count, const std::string& before, const std::string& after) {
    std::string out;
    for (int i = 0; i < count; ++i)
        out += fmt::format("{}{}{}{}", i == 0 ? "" : ", ", before, static_cast<char>('a' + i), after);
    return out;
}

/// A shared address is 32 bits wide.
std::string address_operand(const MemoryHelper& h) {
    return is_shared(h.access) ? "\"r\"((unsigned)__cvta_generic_to_shared(p))" : "\"l\"(p)";
}

/// The function's first line, broken where it is long.
std::string head(const MemoryHelper& h, const std::string& parameters) {
    return wrapped(fmt::format("__device__ __forceinline__ void {}({}) {{", name_of(h), parameters), 0);
}

std::string load_text(const MemoryHelper& h) {
    const auto& word = word_types[static_cast<int>(h.word)];
    const int n = h.words();
    const std::string space = is_shared(h.access) ? "shared" : h.cache == ir::Cache::streaming ? "global.cs" : "global";
    const bool pure = h.access == AccessKind::load_read_only, kept = h.cache == ir::Cache::kept;
    const std::string load =
        fmt::format("ld.{}{}{}.{} {}, [%{}]{};", space, pure ? ".nc" : "", kept ? ".L2::cache_hint" : "", ptx_type(h),
                    ptx_operands(0, n), n, kept ? fmt::format(", %{}", h.predicated ? n + 3 : n + 1) : "");
    const std::string early = h.predicated ? "&" : "";
    const std::string outputs = each_word(n, fmt::format("\"={}{}\"(", early, word.constraint), ")");
    std::string code = '"' + load + '"', inputs = address_operand(h);
    std::string parameters = each_word(n, std::string(word.spelling) + "& ", "") + ", const void* p";
    if (h.predicated) {
        std::string fills;
        for (int i = 0; i < n; ++i) fills += fmt::format("mov.b{} %{}, %{}; ", 8 * bytes_of(h.word), i, n + 2);
        code = fmt::format("\"{{ .reg .pred in; setp.ne.u32 in, %{}, 0; \"\n        \"{}\"\n        \"@in {} }}\"",
                           n + 1, fills, load);
        inputs += fmt::format(", \"r\"((unsigned)in), \"{}\"(fill)", word.constraint);
        parameters = "bool in, " + parameters + ", " + word.spelling + " fill";
    }
    // What createpolicy.fractional.L2::evict_last makes for all bytes; the compiler does not fold that.
    if (kept) inputs += ", \"l\"(0x14F0000000000000ULL)";
    return fmt::format("{}\n    asm{}({}\n        : {}\n        : {}{});\n}}\n", head(h, parameters),
                       pure ? "" : " volatile", code, outputs, inputs, pure ? "" : "\n        : \"memory\"");
}

std::string store_text(const MemoryHelper& h) {
    const auto& word = word_types[static_cast<int>(h.word)];
    const int n = h.words();
    std::string code = fmt::format("st.{}.{} [%0], {};",
                                   is_shared(h.access)               ? "shared"
                                   : h.cache == ir::Cache::streaming ? "global.cs"
                                                                     : "global",
                                   ptx_type(h), ptx_operands(1, n));
    if (h.access >= AccessKind::add)
        code = fmt::format("red.{}.add.u{} [%0], %1;", is_shared(h.access) ? "shared" : "global", 8 * h.bytes);
    std::string inputs = address_operand(h) + ", " + each_word(n, fmt::format("\"{}\"(", word.constraint), ")");
    std::string parameters = "void* p, " + each_word(n, std::string(word.spelling) + " ", "");
    if (h.predicated) {
        code = fmt::format("{{ .reg .pred in; setp.ne.u32 in, %{}, 0; @in {} }}", n + 1, code);
        inputs += ", \"r\"((unsigned)in)";
        parameters = "bool in, " + parameters;
    }
    return fmt::format("{}\n    asm volatile(\"{}\"\n        :\n        : {}\n        : \"memory\");\n}}\n",
                       head(h, parameters), code, inputs);
}

}  // namespace

WordType word_type_of(const char* spelling) {
    for (int i = 0; i < 6; ++i)
        if (std::strcmp(word_types[i].spelling, spelling) == 0) return static_cast<WordType>(i);
    throw InternalError(std::string("registers of type ") + spelling + " have no memory accesses");
}

const char* spelling_of(WordType type) { return word_types[static_cast<int>(type)].spelling; }

std::string name_of(const MemoryHelper& h) {
    constexpr const char* stems[] = {"load",         "load_mutable", "load_shared",      "store",
                                     "store_shared", "atomic_add",   "atomic_add_shared"};
    constexpr const char* hints[] = {"", "_streaming", "_kept"};
    return fmt::format("{}{}_{}{}", stems[static_cast<int>(h.access)], hints[static_cast<int>(h.cache)], h.bytes,
                       h.predicated ? "_if" : "");
}

std::string text_of(const MemoryHelper& h) { return is_load(h.access) ? load_text(h) : store_text(h); }

std::vector<std::string> all_memory_helper_names() {
    std::vector<std::string> names;
    for (int access = 0; access < 7; ++access)
        for (int bytes = 1; bytes <= 32; bytes *= 2)
            for (const bool predicated : {false, true})
                for (const ir::Cache cache : {ir::Cache::normal, ir::Cache::streaming, ir::Cache::kept})
                    names.push_back(
                        name_of({static_cast<AccessKind>(access), predicated, bytes, WordType::u32, cache}));
    return names;
}

}  // namespace tessera::emit
