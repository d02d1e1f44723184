#pragma once

#include "kernels/quant.hpp"
#include "kernels/quant_channel.hpp"
