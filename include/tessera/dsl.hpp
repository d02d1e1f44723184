#pragma once

/// Everything a kernel writer needs: values, memory, the recorder. See docs/design.md §2.
#include "dsl/front/kernel.hpp"
