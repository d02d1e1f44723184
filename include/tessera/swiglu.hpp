#pragma once

#include "kernels/swiglu.hpp"
