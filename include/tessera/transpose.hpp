#pragma once

#include "kernels/transpose.hpp"
