#pragma once

#include "kernels/engram.hpp"
