#pragma once

#include <deque>

#include "reference/mhc.hpp"
#include "tools/tessera/device_tensor.hpp"
#include "tools/tessera/kernels.hpp"

// What the entries of the hyper-connection kernels share.

namespace tessera::tool {

/// The inputs of a case, on the device.
class CaseInputs {
public:
    CaseInputs(const Stream& stream, const Case& the_case) : stream_(stream), case_(the_case) {}
    bool has(const char* name) const { return case_.input(name) != nullptr; }
    TensorView operator()(const char* name) {
        kept_.emplace_back(stream_, *case_.input(name));
        return kept_.back();
    }

private:
    const Stream& stream_;
    const Case& case_;
    std::deque<DeviceTensor> kept_;
};

/// The values of an input, widened to FP32; empty if the case has none of that name.
/// Errors: UsageError unless they are F32 or BF16.
mhc_reference::Numbers numbers(const Case& the_case, const char* name);
/// Tokens, streams and channels as the input says whose last axes are (m, h), or (m), with or without an axis of 1.
mhc_reference::Extents extents_with_hidden(const Case& the_case, const char* name);
mhc_reference::Extents extents_without_hidden(const Case& the_case, const char* name, std::int64_t streams);

/// A rule that gives each element its limit.
Rule limited(const mhc_reference::Exact& exact);

/// The option `pass`: whether the backward program is wanted. Errors: UsageError.
bool backward_pass(const Arguments& args);
float real_or(const Arguments& args, const char* key, double otherwise);

}  // namespace tessera::tool
