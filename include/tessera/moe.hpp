#pragma once

#include "kernels/moe.hpp"
