// The choice of a level at run time.
#include "dispatch.h"

#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace headway {
namespace {

bool machine_has_avx512() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512vnni") &&
         __builtin_cpu_supports("avx512bf16");
#else
  return false;
#endif
}

bool machine_has_avx2() {
#if defined(__x86_64__)
  // Every CPU with AVX2 and FMA converts halves too (F16C came a generation earlier).
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#else
  return false;
#endif
}

// What this build and this machine have, best first; null where they have it not.
std::array<const Ops*, 3> levels() {
#if defined(__x86_64__)
  __builtin_cpu_init();  // a shared library may be asked before its constructors have run
#endif
  return {machine_has_avx512() ? kAvx512 : nullptr, machine_has_avx2() ? kAvx2 : nullptr, kPortable};
}

const Ops* chosen_at_start() {
  if (const char* name = std::getenv("HEADWAY_CPU_LEVEL"); name && *name) return find_level(name);
  for (const Ops* level : levels())
    if (level) return level;
  return nullptr;
}

std::atomic<const Ops*>& current() {
  static std::atomic<const Ops*> level{chosen_at_start()};
  return level;
}

}  // namespace

const Ops* find_level(const char* name) {
  for (const Ops* level : levels())
    if (level && !std::strcmp(level->name, name)) return level;
  return nullptr;
}

const Ops* ops_or_null() { return current().load(std::memory_order_relaxed); }

const Ops& ops() {
  const Ops* level = ops_or_null();
  if (!level) {  // kernels/cpu/library.py has said so before anything is computed
    std::fputs("HEADWAY_CPU_LEVEL names no level that this machine has\n", stderr);
    std::abort();
  }
  return *level;
}

void use_level(const Ops* level) { current().store(level, std::memory_order_relaxed); }

}  // namespace headway
