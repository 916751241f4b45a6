// The C functions that choose level and threads. kernels/cpu/library.py calls them.
#include "api.h"
#include "dispatch.h"
#include "pool.h"

// Of sources and compiler.
HEADWAY_API const char* headway_version() { return HEADWAY_VERSION " " __VERSION__; }

// The name of the level in use; null where HEADWAY_CPU_LEVEL names one that is not here.
HEADWAY_API const char* headway_level() {
  const headway::Ops* level = headway::ops_or_null();
  return level ? level->name : nullptr;
}

// 0, or 1 where this machine or this build has no level of that name. Not while anything is computed.
HEADWAY_API int headway_use_level(const char* name) {
  const headway::Ops* level = name ? headway::find_level(name) : nullptr;
  if (!level) return 1;
  headway::use_level(level);
  return 0;
}

HEADWAY_API void headway_set_threads(int32_t count) { headway::set_threads(count); }
HEADWAY_API int32_t headway_threads() { return headway::threads(); }

// Calls `run` as headway::parallel does: what tests see of the pool.
HEADWAY_API void headway_parallel(int64_t tasks, void (*run)(void*, int64_t, int64_t), void* context) {
  headway::parallel(tasks, run, context);
}
