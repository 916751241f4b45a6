// A pool in which the caller helps first: it takes shares like any worker and waits only for shares that a worker has
// really begun, so that a worker which the machine does not run costs nothing. Whoever waits spins shortly, then sleeps.
#include "pool.h"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

namespace headway {
namespace {

// A share is a quarter of a thread's part or less: what one thread leaves undone when it is descheduled is little.
constexpr int64_t kSharesPerThread = 8;
// Some tens of microseconds, by processor: longer than threads that share rows are apart when they meet, for whoever sleeps is
// late at the next meeting, where the other one sleeps then, and so on; far shorter than a time slice.
constexpr int kSpins = 2000;

thread_local bool inside_task = false;
thread_local bool is_alone = false;
thread_local int index_in_pool = 0;

// A thread is inside a task for as long as this lives.
struct InsideTask {
  InsideTask() { inside_task = true; }
  ~InsideTask() { inside_task = false; }
};

inline void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// A condition on atomics that threads wait for: first spinning, then asleep.
class Event {
 public:
  // Call after the store that makes the condition true, which must be sequentially consistent.
  void notify() {
    if (sleepers_.load() == 0) return;
    { std::lock_guard<std::mutex> lock(mutex_); }  // whoever is about to sleep has checked before or is asleep now
    changed_.notify_all();
  }
  // `is_true` must read with sequential consistency.
  template <class Condition>
  void wait(Condition is_true) {
    for (int i = 0; i < kSpins; i++) {
      if (is_true()) return;
      pause();
    }
    std::unique_lock<std::mutex> lock(mutex_);
    sleepers_.fetch_add(1);
    changed_.wait(lock, is_true);
    sleepers_.fetch_sub(1);
  }

 private:
  std::atomic<int> sleepers_{0};
  std::mutex mutex_;
  std::condition_variable changed_;
};

class Pool {
 public:
  explicit Pool(int threads) : threads_(threads) {}

  int threads() {
    std::lock_guard<std::mutex> lock(callers_);
    return threads_;
  }

  int threads_of_parent() const { return threads_; }  // in a child of fork, where the lock may be held by nobody

  void set_threads(int count) {
    std::lock_guard<std::mutex> lock(callers_);
    threads_ = std::max(1, count);
    if (static_cast<int>(workers_.size()) >= threads_) stop_workers();
  }

  void run(int64_t tasks, void (*task)(void*, int64_t, int64_t), void* context) {
    std::lock_guard<std::mutex> lock(callers_);
    start_workers();
    if (workers_.empty()) {
      InsideTask inside;
      return task(context, 0, tasks);
    }
    job_ = {task, context, tasks, std::min(tasks, kSharesPerThread * threads_)};
    done_.store(0);
    // The shares are offered by one store: a generation in the high half, how many are left in the low.
    uint32_t generation = generation_of(offer_.load()) + 1;
    offer_.store(uint64_t{generation} << 32 | static_cast<uint64_t>(job_.shares));
    offered_.notify();
    work(generation);
    finished_.wait([this] { return done_.load() == job_.shares; });
  }

  void stop() {
    std::lock_guard<std::mutex> lock(callers_);
    threads_ = 1;
    stop_workers();
  }

 private:
  struct Job {
    void (*task)(void*, int64_t, int64_t);
    void* context;
    int64_t tasks, shares;
  };

  static uint32_t generation_of(uint64_t offer) { return static_cast<uint32_t>(offer >> 32); }
  static uint32_t shares_left(uint64_t offer) { return static_cast<uint32_t>(offer); }

  // Takes shares of this generation's job until none is left.
  void work(uint32_t generation) {
    InsideTask inside;
    uint64_t offer = offer_.load();
    while (generation_of(offer) == generation && shares_left(offer) > 0) {
      if (!offer_.compare_exchange_weak(offer, offer - 1)) continue;
      // The job cannot end before this share does: only now may it be read.
      Job job = job_;
      int64_t share = job.shares - shares_left(offer);
      job.task(job.context, job.tasks * share / job.shares, job.tasks * (share + 1) / job.shares);
      if (done_.fetch_add(1) + 1 == job.shares) finished_.notify();
      offer = offer_.load();
    }
  }

  void worker(int index, uint32_t seen) {
    index_in_pool = index;
    for (;;) {
      offered_.wait([&] { return stopping_.load() || generation_of(offer_.load()) != seen; });
      if (stopping_.load()) return;
      seen = generation_of(offer_.load());
      work(seen);
    }
  }

  void start_workers() {
    while (static_cast<int>(workers_.size()) < threads_ - 1) {
      uint32_t seen = generation_of(offer_.load());
      try {
        int index = static_cast<int>(workers_.size()) + 1;
        workers_.emplace_back([this, index, seen] { worker(index, seen); });
      } catch (const std::system_error&) {  // no more threads may be made: fewer do the work
        threads_ = static_cast<int>(workers_.size()) + 1;
      }
    }
  }

  void stop_workers() {
    stopping_.store(true);
    offered_.notify();
    for (std::thread& worker : workers_) worker.join();
    workers_.clear();
    stopping_.store(false);
  }

  std::mutex callers_;
  int threads_;
  std::vector<std::thread> workers_;  // started with the first job
  Job job_{};
  std::atomic<uint64_t> offer_{0};
  std::atomic<int64_t> done_{0};
  std::atomic<bool> stopping_{false};
  Event offered_, finished_;
};

int available_cpus() { return std::max(1, static_cast<int>(std::thread::hardware_concurrency())); }

// Never destroyed: a thread may still compute while the process exits.
Pool* instance = nullptr;

// A child of fork has none of its parent's threads: it begins with a pool of its own.
void begin_anew_in_child() {
  inside_task = false;
  instance = new Pool(instance->threads_of_parent());
}

Pool& pool() {
  static const bool made = [] {
    instance = new Pool(available_cpus());
    pthread_atfork(nullptr, nullptr, begin_anew_in_child);
    std::atexit([] { instance->stop(); });
    return true;
  }();
  static_cast<void>(made);
  return *instance;
}

void refuse_inside_task(const char* what) {
  if (!inside_task) return;
  std::fprintf(stderr, "headway: a task of the thread pool called %s\n", what);
  std::abort();
}

}  // namespace

void parallel(int64_t tasks, void (*run)(void*, int64_t, int64_t), void* context) {
  refuse_inside_task("parallel");
  if (tasks <= 0) return;
  if (tasks == 1 || is_alone) {
    InsideTask inside;
    return run(context, 0, tasks);
  }
  pool().run(tasks, run, context);
}

void set_threads(int count) {
  refuse_inside_task("set_threads");
  pool().set_threads(count);
}

int threads() { return is_alone ? 1 : pool().threads(); }

Alone::Alone(bool wanted) : before_(is_alone) { is_alone = is_alone || wanted; }
Alone::~Alone() { is_alone = before_; }

int thread_index() { return index_in_pool; }

}  // namespace headway
