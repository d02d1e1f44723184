#pragma once

#include "kernels/mhc.hpp"
#include "kernels/mhc_mixes.hpp"
#include "kernels/mhc_norm.hpp"
