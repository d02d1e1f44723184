#pragma once

#include "kernels/moe.hpp"
#include "kernels/moe_gate.hpp"
#include "kernels/moe_mapping.hpp"
#include "kernels/moe_routing.hpp"
