#include "dsl/emit/names.hpp"

#include <algorithm>
#include <cctype>
#include <sstream>

#include "dsl/base/error.hpp"
#include "dsl/emit/helpers.hpp"

namespace tessera::emit {

namespace {

/// C++'s keywords, CUDA's built-in names and macros, and what this emitter itself writes.
constexpr const char* reserved =
    "alignas alignof and and_eq asm auto bitand bitor bool break case catch char char16_t char32_t class "
    "compl const const_cast constexpr continue decltype default delete do double dynamic_cast else enum "
    "explicit export extern false float for friend goto if inline int long mutable namespace new "
    "noexcept not not_eq nullptr operator or or_eq private protected public register reinterpret_cast "
    "return short signed sizeof static static_assert static_cast struct switch template this "
    "thread_local throw true try typedef typeid typename union unsigned using virtual void volatile "
    "wchar_t while xor xor_eq final override threadIdx blockIdx blockDim gridDim warpSize abs llabs fabs "
    "fabsf min max fmin fmax fminf fmaxf fmod fmodf rsqrt rsqrtf expf sqrtf log1pf NULL main std "
    "dim3 size_t ptrdiff_t printf malloc free memcpy memset assert clock cudaError_t ";

bool is_identifier(const std::string& name) {
    return !name.empty() && std::isdigit(static_cast<unsigned char>(name[0])) == 0 &&
           std::all_of(name.begin(), name.end(),
                       [](char c) { return c == '_' || std::isalnum(static_cast<unsigned char>(c)) != 0; });
}

/// The nearest identifier. Two underscores in a row are the compiler's.
std::string identifier(const std::string& wanted) {
    std::string out;
    for (const char c : wanted) {
        const bool letter = std::isalnum(static_cast<unsigned char>(c)) != 0;
        if (letter || out.empty() || out.back() != '_') out += letter ? c : '_';
    }
    if (out.empty() || out == "_") out = "value";
    return std::isdigit(static_cast<unsigned char>(out[0])) != 0 ? "_" + out : out;
}

/// Names that no program may give, made once for a process and never destroyed.
const std::unordered_set<std::string>& never_free() {
    static const auto& names = *[] {
        std::istringstream words(reserved);
        auto* all = new std::unordered_set<std::string>{
            Names::thread, Names::block, Names::shared_memory, Names::record, Names::words, Names::bytes, Names::codes};
        for (std::string word; words >> word;) all->insert(word);
        for (const Helper& helper : helper_table()) all->insert(helper.name);
        for (const std::string& name : all_memory_helper_names()) all->insert(name);
        return all;
    }();
    return names;
}

template <class List, class Names, class Unique>
void name_all(const List& list, Names& names, const Unique& unique) {
    for (const auto& item : list) names.push_back(unique(item.name));
}

}  // namespace

Names::Names(const ir::Program& program) {
    if (!is_identifier(program.name) || never_free().contains(program.name) ||
        program.name.find("__") != std::string::npos)
        throw UsageError(program.place, "a kernel cannot be called '" + program.name +
                                            "' in CUDA; give record() a name of letters, digits and underscores that "
                                            "is no word of the language and has no two underscores in a row");
    taken_.insert(program.name);
    const auto unique_name = [this](const std::string& name) { return unique(name); };
    name_all(program.tensors, tensors, unique_name);
    name_all(program.scalars, scalars, unique_name);
    name_all(program.maps, maps, unique_name);
    name_all(program.shared, shared, unique_name);
    name_all(program.arrays, arrays, unique_name);
    for (const std::string& name : program.locals) locals.push_back(unique(name));
    loops.resize(static_cast<std::size_t>(program.loops));
    std::vector<std::string> enclosing;
    name_loops(program.body, enclosing);
}

std::string Names::unique(const std::string& wanted) {
    const std::string base = identifier(wanted);
    std::string name = base;
    for (int n = 2; never_free().contains(name) || !taken_.insert(name).second; ++n)
        name = base + "_" + std::to_string(n);
    return name;
}

/// Counters of loops that follow each other may share a name.
void Names::name_loops(const ir::Body& body, std::vector<std::string>& enclosing) {
    for (const ir::Statement& statement : body) {
        const auto* loop = statement.as<ir::For>();
        if (loop == nullptr) continue;
        require_internal(loop->loop >= 0 && loop->loop < static_cast<int>(loops.size()), "loop id out of range");
        const std::string base = identifier(loop->name);
        std::string name = base;
        const auto clashes = [&] {
            return never_free().contains(name) || taken_.contains(name) ||
                   std::find(enclosing.begin(), enclosing.end(), name) != enclosing.end();
        };
        for (int n = 2; clashes(); ++n) name = base + "_" + std::to_string(n);
        loops[static_cast<std::size_t>(loop->loop)] = name;
        enclosing.push_back(name);
        name_loops(loop->body, enclosing);
        enclosing.pop_back();
    }
}

}  // namespace tessera::emit
