#pragma once

#include "kernels/mhc_mixes.hpp"
