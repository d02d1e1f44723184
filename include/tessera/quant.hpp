#pragma once

#include "kernels/quant.hpp"
