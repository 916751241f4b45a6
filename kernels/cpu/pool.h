// The thread pool: one for the process, shared by its callers one at a time.
#pragma once
#include <cstdint>

namespace headway {

// Runs run(context, begin, end) over shares of [0, tasks); returns when all are done. The caller works too. A task must
// not call this itself, and must not throw.
void parallel(int64_t tasks, void (*run)(void* context, int64_t begin, int64_t end), void* context);

template <class F>
void parallel(int64_t tasks, F each) {
  parallel(tasks, [](void* context, int64_t begin, int64_t end) { (*static_cast<F*>(context))(begin, end); }, &each);
}

// How many threads work, the caller among them: at least one. By default as many as there are CPUs.
void set_threads(int count);
// As many as the caller may have work: one while it is alone.
int threads();

// While this lives, and `wanted` is true, the workers leave this thread to its jobs.
class Alone {
 public:
  explicit Alone(bool wanted);
  ~Alone();
  Alone(const Alone&) = delete;
  Alone& operator=(const Alone&) = delete;

 private:
  const bool before_;
};

// Which of them this one is, in a task: 0 is the caller.
int thread_index();

}  // namespace headway
