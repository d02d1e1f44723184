#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "dsl/front/program.hpp"
#include "runtime/stream.hpp"
#include "tools/tessera/arguments.hpp"
#include "tools/tessera/compare.hpp"
#include "tools/tessera/golden_case.hpp"

namespace tessera::tool {

/// A kernel as the command line and the golden cases know it.
struct KernelEntry {
    std::string name;
    std::string summary;
    std::vector<std::string> keys;        // options that it takes
    std::vector<std::string> later_keys;  // options of the specification that are not written yet
    std::vector<std::string> inputs;      // tensors that a case must hold
    std::vector<std::string> outputs;     // tensors that a case may expect

    /// Why the options cannot be run although they are of the specification; nothing if they can.
    std::optional<std::string> (*not_written)(const Arguments& args);
    /// Runs the case and copies what came out to the host.
    std::vector<Result> (*run)(const Stream& stream, const Case& the_case);
    /// How the output of that name is compared.
    Rule (*rule)(const Case& the_case, const std::string& output);
    /// The kernel as recorded for these options; `in` names the type of the input, `aligned` picks the wide or the
    /// narrow specialisation. No options: a default case.
    Program (*program)(const Arguments& args, const Target& target);
    std::vector<std::string> optional_inputs = {};  // tensors that a case may hold
};

/// All kernels, by name.
const std::vector<KernelEntry>& kernel_table();

/// The entry of that name; null if there is none.
const KernelEntry* find_kernel(std::string_view name);

/// Checks the names of options against those that the kernel takes; keys in `also` are taken too. Returns why the call
/// is not written yet. Errors: UsageError for an option that no specification knows.
std::optional<std::string> check_options(const KernelEntry& kernel, const Arguments& args,
                                         const std::vector<std::string>& also);

/// The kernel recorded for these options. Errors: UsageError for a number that no shape has; what the kernel refuses.
Program program_of(const KernelEntry& kernel, const Arguments& args, const Target& target);

/// The option `in`: one of `allowed`, the first if it is not given. Errors: UsageError.
Element input_element(const Arguments& args, const std::vector<Element>& allowed);

/// Checks the names of a case's tensors. Errors: UsageError for one that is unknown or missing.
void check_tensors(const KernelEntry& kernel, const Case& the_case);

}  // namespace tessera::tool
