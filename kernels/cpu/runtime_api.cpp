// The C functions that choose level and threads, and that ask for memory. kernels/cpu/library.py calls them.
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>

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

// Has the system give memory now for bytes that may never have been written; what they hold does not change. The calling
// thread goes behind all others for good. 1 where the system cannot: then it gives memory as it is first written.
HEADWAY_API int headway_populate(void* begin, int64_t bytes) {
  constexpr int kPopulateWrite = 23;            // MADV_POPULATE_WRITE, from Linux 5.14 on
  constexpr uintptr_t kPiece = uintptr_t{8} << 20;  // between two, others who change the address space have their turn
  setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), 19);
  const uintptr_t page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  uintptr_t at = (reinterpret_cast<uintptr_t>(begin) + page - 1) / page * page;
  const uintptr_t end = (reinterpret_cast<uintptr_t>(begin) + static_cast<uintptr_t>(bytes)) / page * page;
  for (; at < end; at += kPiece)
    if (madvise(reinterpret_cast<void*>(at), std::min(kPiece, end - at), kPopulateWrite)) return 1;
  return 0;
}

// Calls `run` as headway::parallel does: what tests see of the pool.
HEADWAY_API void headway_parallel(int64_t tasks, void (*run)(void*, int64_t, int64_t), void* context) {
  headway::parallel(tasks, run, context);
}
