// Rows of activations in the forms that packed weights multiply with, and the memory that holds them.
#pragma once
#include <cstdint>
#include <vector>

#include "dispatch.h"
#include "linear.h"

namespace headway {

class PreparedRows {
 public:
  // Call before rows are prepared; memory is kept for the next time.
  void resize(const Linear& weights, int64_t rows) {
    width_ = weights.k();
    groups_ = width_ / kGroup;
    for (Kind kind : weights.prepared_kinds()) {
      if (kind == kBF16) grow(bf16_, rows * even());
      if (!is_quantized(kind)) continue;
      grow(q_, rows * width_);
      grow(scale_, rows * groups_);
      grow(sum_, rows * groups_);
      grow(minus_128_, rows * groups_);
      grow(minus_32_, rows * groups_ * 2);
      grow(outliers_, rows * kOutliers);
    }
  }

  // x [rows, k] become rows from `first` on; of different rows, from any thread.
  void prepare(const Linear& weights, const float* x, int64_t first, int64_t rows) {
    for (Kind kind : weights.prepared_kinds())
      ops().prepare(kind, x, rows, width_, from(bf16_, first * even()), from(q_, first * width_),
                    from(scale_, first * groups_), from(sum_, first * groups_), from(minus_128_, first * groups_),
                    from(minus_32_, first * groups_ * 2), from(outliers_, first * kOutliers));
  }

  // Rows from `first` on; x [rows, k] are the same that were prepared.
  Activations view(const float* x, int64_t first = 0) {
    return {x,
            from(bf16_, first * even()),
            from(q_, first * width_),
            from(scale_, first * groups_),
            from(sum_, first * groups_),
            from(minus_128_, first * groups_),
            from(minus_32_, first * groups_ * 2),
            from(outliers_, first * kOutliers)};
  }

 private:
  template <class T>
  static void grow(std::vector<T>& values, int64_t size) {
    if (static_cast<int64_t>(values.size()) < size) values.resize(size);
  }

  template <class T>
  static T* from(std::vector<T>& values, int64_t offset) {
    // A form that no segment needs is not there, or is that of another linear and may be shorter.
    return offset < static_cast<int64_t>(values.size()) ? values.data() + offset : nullptr;
  }

  int64_t even() const { return (width_ + 1) / 2 * 2; }

  int64_t width_ = 0, groups_ = 0;
  std::vector<uint16_t> bf16_;
  std::vector<int8_t> q_;
  std::vector<float> scale_, sum_;
  std::vector<int32_t> minus_128_, minus_32_;
  std::vector<Outlier> outliers_;
};

}  // namespace headway
