// What the C functions that can fail give back, and the guard that they run under: nothing may be thrown into C.
#pragma once
#include <atomic>
#include <exception>
#include <new>

namespace headway {

enum Result : int { kDone = 0, kRefused = 1, kNoMemory = 2, kNotFinite = 3, kHasBias = 4 };

// All that can be thrown here is a want of memory.
template <class F>
int guarded(F call) {
  try {
    return call();
  } catch (const std::exception&) {
    return kNoMemory;
  }
}

// A want of memory in tasks of the pool, which must not throw: it is noted there, and thrown by who called the pool.
class Shortage {
 public:
  template <class F>
  void note(F work) {
    try {
      work();
    } catch (const std::exception&) {
      met_.store(true, std::memory_order_relaxed);
    }
  }

  // Call when the pool has returned.
  void raise() const {
    if (met_.load(std::memory_order_relaxed)) throw std::bad_alloc();
  }

 private:
  std::atomic<bool> met_{false};
};

}  // namespace headway
