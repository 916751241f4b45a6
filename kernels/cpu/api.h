// How the library's C functions are declared.
#pragma once

#define HEADWAY_API extern "C" __attribute__((visibility("default")))
