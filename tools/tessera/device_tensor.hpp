#pragma once

#include <vector>

#include "runtime/tensor.hpp"
#include "tools/tessera/compare.hpp"
#include "tools/tessera/golden_case.hpp"

namespace tessera::tool {

/// A case's tensor on a device, at its strides. What lies between the elements is poison (0xff), so that a kernel that
/// reads it shows.
class DeviceTensor {
public:
    DeviceTensor(const Stream& stream, const CaseTensor& tensor);
    operator const TensorView&() const { return view_; }

private:
    Tensor memory_;
    TensorView view_;
};

/// Copies an output to the host; `name` is what the case calls it.
Result download(const Stream& stream, const std::string& name, const TensorView& output);

/// The same for scales in columns: `output` has strides (1, p), and rows up to the next multiple of 4 belong to the
/// memory of a column. They come back as padding.
Result download_columns(const Stream& stream, const std::string& name, const TensorView& output);

}  // namespace tessera::tool
