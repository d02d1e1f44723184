#pragma once

#include "modeling/engram_gate.hpp"
