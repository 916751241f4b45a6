// Rows of activations in the forms that packed weights multiply with.
//
// Included once per level inside that level's namespace, after its simd header.

inline void prepare_bf16(const float* x, int64_t k, uint16_t* out) {
  int64_t i = 0;
  for (; i + 16 <= k; i += 16) store_bf16(out + i, load(x + i));
  if (i == k) return;
  uint16_t last[16];
  store_bf16(last, load_first(x + i, k - i));
  // An odd row ends with half a pair: its weight is zero, and so must it be.
  memcpy(out + i, last, static_cast<size_t>((k - i + 1) / 2 * 2) * sizeof(uint16_t));
}

// A magnitude's bits, which are in the order of magnitudes; those of a NaN are larger than any number's.
inline uint32_t magnitude_bits(float value) {
  uint32_t bits;
  memcpy(&bits, &value, 4);
  return bits & 0x7fffffff;
}

// The largest magnitude of a group by its bits: those of a NaN are larger than any number's.
inline float largest_magnitude(const float* x) {
  uint32_t largest = 0;
  for (int i = 0; i < kGroup; i++) {
    uint32_t bits = magnitude_bits(x[i]);
    largest = bits > largest ? bits : largest;
  }
  float magnitude;
  memcpy(&magnitude, &largest, 4);
  return magnitude;
}

// One group of 32 as int8: x is close to scale * q, q between -127 and 127. A group with a value that is not finite gets
// a scale that is not either, so that every output of the row is not finite; one without a value to speak of is zero.
inline void prepare_group(const float* x, float magnitude, int8_t* q, float* scale, float* sum) {
  constexpr float kLargest = 3.402823466e38f, kSmallest = 1e-36f;  // 127 / kSmallest is finite
  if (!(magnitude <= kLargest) || magnitude < kSmallest) {
    memset(q, 0, kGroup);
    *scale = *sum = magnitude <= kLargest ? 0.0f : __builtin_nanf("");
    return;
  }
  F16 inverse = set1(127.0f / magnitude);
  int32_t total = store_s8(q, mul(load(x), inverse)) + store_s8(q + 16, mul(load(x + 16), inverse));
  *scale = magnitude / 127.0f;
  *sum = *scale * static_cast<float>(total);
}

// The input of the largest magnitude in a group but `skipped`, the first of equals.
inline uint32_t largest_input(const float* x, int64_t group, uint32_t skipped) {
  uint32_t begin = static_cast<uint32_t>(group * kGroup), best = begin + (begin == skipped);
  for (uint32_t i = best + 1; i < begin + kGroup; i++)
    if (i != skipped && magnitude_bits(x[i]) > magnitude_bits(x[best])) best = i;
  return best;
}

// The groups of the two largest magnitudes, of equals the first; -1 where there is no second.
struct Heights {
  int64_t first = -1, second = -1;
  uint32_t first_bits = 0, second_bits = 0;

  void see(int64_t group, float magnitude) {
    uint32_t bits = magnitude_bits(magnitude);
    if (first < 0 || bits > first_bits) {
      second = first, second_bits = first_bits;
      first = group, first_bits = bits;
    } else if (second < 0 || bits > second_bits) {
      second = group, second_bits = bits;
    }
  }
};

// The two inputs of the largest magnitude: the second is in the first's group, or the largest of another.
inline void find_outliers(const float* x, const Heights& heights, Outlier* outliers) {
  static_assert(kOutliers == 2);
  uint32_t first = largest_input(x, heights.first, UINT32_MAX), second = largest_input(x, heights.first, first);
  if (heights.second >= 0) {
    uint32_t rival = largest_input(x, heights.second, UINT32_MAX);
    uint32_t here = magnitude_bits(x[second]), there = magnitude_bits(x[rival]);
    if (there > here || (there == here && rival < second)) second = rival;
  }
  outliers[0] = {std::min(first, second), x[std::min(first, second)]};
  outliers[1] = {std::max(first, second), x[std::max(first, second)]};
}

inline void prepare_int8(const float* x, int64_t k, int8_t* q, float* scale, float* sum, Outlier* outliers) {
  Heights heights;
  for (int64_t g = 0; g < k / kGroup; g++) {
    float magnitude = largest_magnitude(x + g * kGroup);
    heights.see(g, magnitude);
    prepare_group(x + g * kGroup, magnitude, q + g * kGroup, scale + g, sum + g);
  }
  find_outliers(x, heights, outliers);
  for (int i = 0; i < kOutliers; i++) {  // their groups again, without them
    uint32_t g = outliers[i].input / kGroup;
    float rest[kGroup];
    memcpy(rest, x + g * kGroup, sizeof rest);
    for (int j = 0; j < kOutliers; j++)
      if (outliers[j].input / kGroup == g) rest[outliers[j].input % kGroup] = 0.0f;
    prepare_group(rest, largest_magnitude(rest), q + g * kGroup, scale + g, sum + g);
  }
}

inline void prepare(Kind kind, const float* x, int64_t rows, int64_t k, uint16_t* bf16, int8_t* q, float* scale,
                    float* sum, Outlier* outliers) {
  for (int64_t row = 0; row < rows; row++) {
    if (kind == kBF16) prepare_bf16(x + row * k, k, bf16 + row * ((k + 1) / 2 * 2));
    if (is_quantized(kind))
      prepare_int8(x + row * k, k, q + row * k, scale + row * (k / kGroup), sum + row * (k / kGroup),
                   outliers + row * kOutliers);
  }
}
