// The chosen instruction set.
#pragma once
#include "ops.h"

namespace headway {

// The functions of the level in use: the best that this machine has, or what HEADWAY_CPU_LEVEL names.
const Ops& ops();

// Null where HEADWAY_CPU_LEVEL names a level that is not here; otherwise ops().
const Ops* ops_or_null();

// The level of that name, null where there is none or this machine or build does not have it.
const Ops* find_level(const char* name);

// Makes `level` what ops() gives. Not while anything is computed.
void use_level(const Ops* level);

}  // namespace headway
