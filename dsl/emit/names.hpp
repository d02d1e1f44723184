#pragma once

#include <string>
#include <unordered_set>
#include <vector>

#include "dsl/ir/program.hpp"

namespace tessera::emit {

/// The identifier of everything that generated text names. The writer's names are kept where C++ allows it; a name
/// that is taken gets "_2", "_3" … A pure function of the program.
class Names {
public:
    /// Errors: UsageError if the program's own name is no identifier, or one that generated text needs.
    explicit Names(const ir::Program& program);

    std::vector<std::string> tensors, scalars, maps, shared, arrays, locals, loops;

    static constexpr const char* thread = "thread";
    static constexpr const char* block = "block";
    static constexpr const char* shared_memory = "shared_memory";
    static constexpr const char* record = "record";
    static constexpr const char* words = "words";
    static constexpr const char* bytes = "bytes";
    static constexpr const char* codes = "codes";

private:
    std::string unique(const std::string& wanted);
    void name_loops(const ir::Body& body, std::vector<std::string>& enclosing);

    std::unordered_set<std::string> taken_;
};

}  // namespace tessera::emit
