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

// ---- int8: groups of 32 inputs, each with a scale

struct GroupLanes {
  F16 low, high;
};
inline GroupLanes magnitudes(const float* group) { return {absolute(load(group)), absolute(load(group + 16))}; }
inline float largest_magnitude(const GroupLanes& lanes) { return max_lane(max(lanes.low, lanes.high)); }

// One group of finite numbers as int8: x is close to scale * q, q between -127 and 127. One without a value to speak of
// is zero.
inline void prepare_group(const float* x, float magnitude, int8_t* q, float* scale, float* sum, int32_t* minus_128) {
  constexpr float kSmallest = 1e-36f;  // 127 / kSmallest is finite
  if (magnitude < kSmallest) {
    memset(q, 0, kGroup);
    *scale = *sum = 0.0f;
    *minus_128 = 0;
    return;
  }
  F16 inverse = set1(127.0f / magnitude);
  int32_t total = store_s8(q, mul(load(x), inverse), mul(load(x + 16), inverse));
  *scale = magnitude / 127.0f;
  *sum = *scale * static_cast<float>(total);
  *minus_128 = -128 * total;
}

// Where every number of a row that holds one that is not finite goes: no output of it is finite.
inline void prepare_not_finite(int64_t k, int8_t* q, float* scale, float* sum, int32_t* minus_128, Outlier* outliers) {
  memset(q, 0, static_cast<size_t>(k));
  memset(minus_128, 0, static_cast<size_t>(k / kGroup) * sizeof(int32_t));
  for (int64_t g = 0; g < k / kGroup; g++) scale[g] = sum[g] = __builtin_nanf("");
  for (int i = 0; i < kOutliers; i++) outliers[i] = {0, 0.0f};
}

// Whether a sum of numbers, each times zero, met finite numbers alone.
inline bool is_finite_check(F16 check) { return !std::isnan(sum(check)); }

constexpr uint32_t kNone = UINT32_MAX;

// The input of the largest magnitude in a group but `skipped`, the first of equals.
inline uint32_t largest_input(const float* x, int64_t group, uint32_t skipped) {
  uint32_t begin = static_cast<uint32_t>(group * kGroup), skipped_bit = 0;
  GroupLanes lanes = magnitudes(x + begin);
  if (skipped - begin < unsigned{kGroup}) {  // as unsigned: false where it is before `begin`, or kNone
    float rest[kGroup];
    memcpy(rest, x + begin, sizeof rest);
    rest[skipped - begin] = 0.0f;
    lanes = magnitudes(rest);
    skipped_bit = 1u << (skipped - begin);
  }
  F16 largest = set1(largest_magnitude(lanes));
  uint32_t bits = at_least(lanes.low, largest) | at_least(lanes.high, largest) << 16;
  return begin + static_cast<uint32_t>(__builtin_ctz(bits & ~skipped_bit));
}

// The groups of the two largest magnitudes, of equals the first; -1 where there is no second.
struct Heights {
  int64_t first = -1, second = -1;
  float first_magnitude = -1.0f, second_magnitude = -1.0f;

  void see(int64_t group, float magnitude) {
    if (magnitude <= second_magnitude) return;
    if (magnitude > first_magnitude) {
      second = first, second_magnitude = first_magnitude;
      first = group, first_magnitude = magnitude;
    } else {
      second = group, second_magnitude = magnitude;
    }
  }
};

// The two inputs of the largest magnitude: the second is in the first's group, or the largest of another.
inline void find_outliers(const float* x, const Heights& heights, Outlier* outliers) {
  static_assert(kOutliers == 2);
  uint32_t first = largest_input(x, heights.first, kNone), second = largest_input(x, heights.first, first);
  if (heights.second >= 0) {
    uint32_t rival = largest_input(x, heights.second, kNone);
    float here = std::fabs(x[second]), there = std::fabs(x[rival]);
    if (there > here || (there == here && rival < second)) second = rival;
  }
  outliers[0] = {std::min(first, second), x[std::min(first, second)]};
  outliers[1] = {std::max(first, second), x[std::max(first, second)]};
}

inline void prepare_int8(const float* x, int64_t k, int8_t* q, float* scale, float* sum, int32_t* minus_128,
                         Outlier* outliers) {
  Heights heights;
  F16 check = zero();  // NaN in some lane where a number is not finite
  for (int64_t g = 0; g < k / kGroup; g++) {
    GroupLanes lanes = magnitudes(x + g * kGroup);
    check = fma(lanes.high, zero(), fma(lanes.low, zero(), check));
    scale[g] = largest_magnitude(lanes);
    heights.see(g, scale[g]);
  }
  if (!is_finite_check(check)) return prepare_not_finite(k, q, scale, sum, minus_128, outliers);
  find_outliers(x, heights, outliers);
  auto prepare_at = [&](int64_t g, const float* group, float magnitude) {
    prepare_group(group, magnitude, q + g * kGroup, scale + g, sum + g, minus_128 + g);
  };
  for (int64_t g = 0; g < k / kGroup; g++) prepare_at(g, x + g * kGroup, scale[g]);
  for (int i = 0; i < kOutliers; i++) {  // their groups again, without them
    uint32_t g = outliers[i].input / kGroup;
    float rest[kGroup];
    memcpy(rest, x + g * kGroup, sizeof rest);
    for (int j = 0; j < kOutliers; j++)
      if (outliers[j].input / kGroup == g) rest[outliers[j].input % kGroup] = 0.0f;
    prepare_at(g, rest, largest_magnitude(magnitudes(rest)));
  }
}

inline void sum_halves(const int8_t* q, int64_t k, int32_t* minus_32) {
  for (int64_t half = 0; half < k / kHalfGroup; half++) {
    int32_t total = 0;
    for (int64_t i = half * kHalfGroup; i < (half + 1) * kHalfGroup; i++) total += q[i];
    minus_32[half] = -32 * total;
  }
}

inline void prepare(Kind kind, const float* x, int64_t rows, int64_t k, uint16_t* bf16, int8_t* q, float* scale,
                    float* sum, int32_t* minus_128, int32_t* minus_32, Outlier* outliers) {
  for (int64_t row = 0; row < rows; row++) {
    if (kind == kBF16) prepare_bf16(x + row * k, k, bf16 + row * ((k + 1) / 2 * 2));
    if (is_quantized(kind))
      prepare_int8(x + row * k, k, q + row * k, scale + row * (k / kGroup), sum + row * (k / kGroup),
                   minus_128 + row * (k / kGroup), outliers + row * kOutliers);
    if (kind == kQ6_K) sum_halves(q + row * k, k, minus_32 + row * (k / kHalfGroup));
  }
}
