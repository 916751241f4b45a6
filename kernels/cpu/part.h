// Rows of a step on their way through several operations, and who computes them. Few rows go with all threads, which share
// every operation by its outputs. Many rows are cut into parts: a thread takes one through all operations while it is in its
// near cache, and waits for nobody in between. A row's bits are the same either way.
#pragma once
#include <algorithm>
#include <cstdint>

#include "dispatch.h"
#include "linear.h"
#include "pool.h"

namespace headway {

struct Part {
  int64_t first, rows;  // of the step
  bool shared;          // by all threads

  // Calls each(row) for the rows of the part, counted from 0.
  template <class F>
  void each_row(F each) const {
    // Rows that one thread takes at least: below this, handing them over costs more than it saves.
    constexpr int64_t kRowsPerTask = 4;
    auto some = [&](int64_t begin, int64_t end) {
      for (int64_t row = begin * kRowsPerTask; row < std::min(rows, end * kRowsPerTask); row++) each(row);
    };
    int64_t tasks = (rows + kRowsPerTask - 1) / kRowsPerTask;
    shared ? parallel(tasks, some) : some(0, tasks);
  }

  void multiply(const Linear& weights, const Activations& x, float* out) const {
    auto some = [&](int64_t begin, int64_t end) { ops().linear(weights, x, rows, out, begin, end); };
    shared ? parallel(weights.num_blocks(), some) : some(0, weights.num_blocks());
  }
};

class Parts {
 public:
  explicit Parts(int64_t rows) : rows_(rows) {
    // Of one part: with fewer the weights are read too often, more do not stay in the near cache. A thread has two or
    // more, so that one which the machine slows down leaves some to the others.
    constexpr int64_t kFewestRows = 8, kRows = 32;
    int64_t rows_each = rows / threads(), parts_each = std::min<int64_t>(rows_each / kFewestRows, threads() > 1 ? 2 : 1);
    parts_each = std::max(parts_each, rows_each / kRows);
    shared_ = parts_each == 0;
    count_ = shared_ ? 1 : parts_each * threads();
  }

  // Of the part with the most rows.
  int64_t most_rows() const { return (rows_ + count_ - 1) / count_; }

  // Calls each(part) for every one, from any thread.
  template <class F>
  void each(F each) const {
    if (shared_) return each(Part{0, rows_, true});
    parallel(count_, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; i++) {
        int64_t first = rows_ * i / count_;
        each(Part{first, rows_ * (i + 1) / count_ - first, false});
      }
    });
  }

 private:
  int64_t rows_, count_;
  bool shared_;
};

}  // namespace headway
