#include "tools/tessera/engram_rules.hpp"

#include <cmath>
#include <cstring>
#include <fmt/format.h>

#include "dsl/base/error.hpp"
#include "reference/engram.hpp"

namespace tessera::tool {

namespace {

/// An input of FP32 or BF16.
std::vector<float> floats_of(const Case& the_case, const char* name) {
    const CaseTensor& t = *the_case.input(name);
    const std::size_t width = t.value_bytes(), count = t.values.size() / width;
    if (t.type != StoredType::F32 && t.type != StoredType::BF16)
        throw UsageError(fmt::format("{}: {} is {}; it must be F32 or BF16", the_case.file, name, name_of(t.type)));
    std::vector<float> values(count);
    for (std::size_t i = 0; i < count; ++i) {
        std::uint32_t bits = 0;
        std::memcpy(reinterpret_cast<char*>(&bits) + (4 - width), &t.values[i * width], width);
        std::memcpy(&values[i], &bits, sizeof bits);
    }
    return values;
}
std::vector<double> doubles_of(const Case& the_case, const char* name) {
    const std::vector<float> values = floats_of(the_case, name);
    return {values.begin(), values.end()};
}

reference::EngramGate gate_of(const Case& the_case) {
    const std::vector<std::int64_t>& shape = the_case.input("hidden_states")->shape;
    if (shape.size() != 3)
        throw UsageError(fmt::format("{}: hidden_states has {} axes; it has 3", the_case.file, shape.size()));
    return {shape[0],
            shape[1],
            shape[2],
            doubles_of(the_case, "hidden_states"),
            doubles_of(the_case, "k"),
            doubles_of(the_case, "v"),
            doubles_of(the_case, "weight_fused"),
            engram_eps(the_case.args),
            engram_clamp(the_case.args)};
}

Rule twice(const std::vector<double>& limits) {
    Rule rule;
    rule.limits = limits;
    for (double& limit : rule.limits) limit *= 2;
    return rule;
}

}  // namespace

float engram_eps(const Arguments& args) { return static_cast<float>(args.real("eps").value_or(1e-20)); }
float engram_clamp(const Arguments& args) { return static_cast<float>(args.real("clamp_value").value_or(1e-6)); }

Rule engram_forward_rule(const Case& the_case, const std::string& output) {
    const reference::EngramForward f = reference::engram_forward(gate_of(the_case));
    if (output == "dot") return twice(f.dot.limit);
    if (output == "gate_score") return twice(f.gate.limit);
    if (output == "rstd_x") return twice(f.rstd_x.limit);
    if (output == "rstd_k") return twice(f.rstd_k.limit);
    return twice(f.output.limit);
}

Rule engram_backward_rule(const Case& the_case, const std::string& output) {
    const reference::EngramSaved saved{floats_of(the_case, "dot"), floats_of(the_case, "gate_score"),
                                       floats_of(the_case, "rstd_x"), floats_of(the_case, "rstd_k")};
    const reference::EngramGradients g =
        reference::engram_backward(gate_of(the_case), doubles_of(the_case, "grad_out"), saved);
    if (output == "grad_hidden_states") return twice(g.x.limit);
    if (output == "grad_k") return twice(g.k.limit);
    if (output == "grad_v") return twice(g.v.limit);
    return twice(g.w.limit);
}

/// |old| + Σ |partial| · |weight|, in units of 2⁻²¹.
Rule engram_reduce_rule(const Case& the_case, const std::string& output) {
    const bool hidden = output == "grad_weight_hidden";
    std::vector<double> sizes = doubles_of(the_case, output.c_str());
    const std::vector<double> weight = doubles_of(the_case, hidden ? "weight_embed" : "weight_hidden");
    const std::vector<double> partial = doubles_of(the_case, "grad_w_partial");
    for (double& size : sizes) size = std::fabs(size);
    for (std::size_t i = 0; i < partial.size(); ++i)
        sizes[i % sizes.size()] += std::fabs(partial[i] * weight[i % sizes.size()]);
    for (double& size : sizes) size *= 0x1p-21;
    return twice(sizes);
}

}  // namespace tessera::tool
