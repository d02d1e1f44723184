#pragma once

#include "kernels/quant.hpp"
#include "kernels/quant_channel.hpp"
#include "kernels/quant_lossless.hpp"
