#pragma once

/// Devices, streams, tensors and engines: everything to run kernels. See docs/design.md §4.
#include "dsl/base/error.hpp"
#include "runtime/compiled.hpp"
#include "runtime/compiled_kernel.hpp"
#include "runtime/counters.hpp"
#include "runtime/device.hpp"
#include "runtime/dlpack.hpp"
#include "runtime/engine.hpp"
#include "runtime/prepare.hpp"
#include "runtime/stream.hpp"
#include "runtime/tensor.hpp"
